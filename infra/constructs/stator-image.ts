import { resolve } from 'node:path';
import { Aws, IgnoreMode } from 'aws-cdk-lib';
import { Repository } from 'aws-cdk-lib/aws-ecr';
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
  if (uri !== undefined) return pushedImage(scope, uri);
  const asset = new DockerImageAsset(scope, 'Image', {
    directory: resolve('.'), // the repository, where cdk and the tests run
    file: 'infra/images/edge/Dockerfile',
    platform: Platform.LINUX_ARM64,
    ignoreMode: IgnoreMode.DOCKER,
    exclude: ['*', ...IMAGE_SOURCES.map((path) => `!${path}`)],
  });
  return ContainerImage.fromDockerImageAsset(asset);
}

/** `ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME`, with `:TAG` or `@sha256:DIGEST`. */
const PRIVATE_ECR =
  /^(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\/([^:@]+)(?::([^@]+)|@(sha256:[0-9a-f]{64}))?$/;

/** An image that is there already. Of a private registry of ECR a task may read only what its role names. */
function pushedImage(scope: Construct, uri: string): ContainerImage {
  const [, account, region, repositoryName, tag, digest] = PRIVATE_ECR.exec(uri) ?? [];
  if (account === undefined || region === undefined || repositoryName === undefined) {
    return ContainerImage.fromRegistry(uri);
  }
  const repositoryArn = `arn:${Aws.PARTITION}:ecr:${region}:${account}:repository/${repositoryName}`;
  const repository = Repository.fromRepositoryAttributes(scope, 'PushedImage', { repositoryArn, repositoryName });
  return ContainerImage.fromEcrRepository(repository, digest ?? tag ?? 'latest');
}
