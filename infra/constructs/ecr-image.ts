import { Aws } from 'aws-cdk-lib';
import { type IRole, PolicyStatement } from 'aws-cdk-lib/aws-iam';

/** Image in a private registry of ECR. */
export interface EcrImage {
  /** Host name of the registry. */
  readonly registry: string;
  /** Region of the registry. */
  readonly region: string;
  readonly repositoryName: string;
  readonly repositoryArn: string;
  /** Tag or digest of the image. @default latest */
  readonly tagOrDigest: string;
}

/** `ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME`, with `:TAG` or `@sha256:DIGEST`. */
const PRIVATE_ECR =
  /^((\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?)\/([^:@]+)(?::([^@]+)|@(sha256:[0-9a-f]{64}))?$/;

/** Returns the parts of an image's address, or undefined if the image is not in a private registry of ECR. */
export function ecrImageOf(uri: string): EcrImage | undefined {
  const [, registry, account, region, repositoryName, tag, digest] = PRIVATE_ECR.exec(uri) ?? [];
  if (registry === undefined || region === undefined || repositoryName === undefined) return undefined;
  const repositoryArn = `arn:${Aws.PARTITION}:ecr:${region}:${account}:repository/${repositoryName}`;
  return { registry, region, repositoryName, repositoryArn, tagOrDigest: digest ?? tag ?? 'latest' };
}

/** Allows a machine to pull images. Those that are not in a private registry of ECR need no right. */
export function grantPull(role: IRole, images: readonly string[]): void {
  const repositories = new Set(images.flatMap((image) => ecrImageOf(image)?.repositoryArn ?? []));
  if (repositories.size === 0) return;
  const allow = (actions: string[], resources: string[]) =>
    role.addToPrincipalPolicy(new PolicyStatement({ actions, resources }));
  allow(['ecr:GetAuthorizationToken'], ['*']); // it knows no resource
  allow(['ecr:BatchCheckLayerAvailability', 'ecr:BatchGetImage', 'ecr:GetDownloadUrlForLayer'], [...repositories]);
}
