import { resolve } from 'node:path';
import { IgnoreMode } from 'aws-cdk-lib';
import { DockerImageAsset, Platform } from 'aws-cdk-lib/aws-ecr-assets';
import { ContainerImage } from 'aws-cdk-lib/aws-ecs';
import type { Construct } from 'constructs';

/** What the Dockerfiles under `infra/images` copy: the image is built anew when one of these has changed. */
export const IMAGE_SOURCES = [
  'package.json',
  'package-lock.json',
  'esbuild.config.mjs',
  'third-party.mjs',
  'LICENSE',
  'bin',
  'functions',
  'proto',
  'shared',
  'infra/images',
] as const;

/**
 * The image of `stator`: the one at `uri` where there is one, else built from this repository when it is deployed, which takes
 * Docker then but not for synthesis.
 */
export function statorImage(scope: Construct, uri?: string): ContainerImage {
  if (uri !== undefined) return ContainerImage.fromRegistry(uri);
  const asset = new DockerImageAsset(scope, 'Image', {
    directory: resolve('.'), // the repository, where cdk and the tests run
    file: 'infra/images/edge/Dockerfile',
    platform: Platform.LINUX_ARM64,
    ignoreMode: IgnoreMode.DOCKER,
    exclude: ['*', ...IMAGE_SOURCES.map((path) => `!${path}`)],
  });
  return ContainerImage.fromDockerImageAsset(asset);
}
