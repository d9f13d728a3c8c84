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

/** Which image: `edge` holds `stator` alone, `worker` adds it to an engine's. */
export type ImageName = 'edge' | 'worker';

/**
 * An image of `stator`: the one at `uri` where there is one, else built from this repository when it is deployed, which takes
 * Docker then but not for synthesis.
 */
export function statorImage(scope: Construct, name: ImageName, uri?: string): ContainerImage {
  if (uri !== undefined) return ContainerImage.fromRegistry(uri);
  const asset = new DockerImageAsset(scope, `${name}-image`, {
    directory: resolve('.'), // the repository, where cdk and the tests run
    file: `infra/images/${name}/Dockerfile`,
    platform: name === 'edge' ? Platform.LINUX_ARM64 : Platform.LINUX_AMD64,
    ignoreMode: IgnoreMode.DOCKER,
    exclude: ['*', ...IMAGE_SOURCES.map((path) => `!${path}`)],
  });
  return ContainerImage.fromDockerImageAsset(asset);
}
