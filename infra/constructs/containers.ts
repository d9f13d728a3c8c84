import { resolve } from 'node:path';
import { Aws, Duration, IgnoreMode, Size } from 'aws-cdk-lib';
import { Repository } from 'aws-cdk-lib/aws-ecr';
import { DockerImageAsset, Platform } from 'aws-cdk-lib/aws-ecr-assets';
import {
  AwsLogDriverMode,
  type ContainerDefinition,
  ContainerImage,
  CpuArchitecture,
  type Secret as EcsSecret,
  FargateTaskDefinition,
  type FargateTaskDefinitionProps,
  type LogDriver,
  LogDrivers,
  OperatingSystemFamily,
} from 'aws-cdk-lib/aws-ecs';
import { CfnRole, type IRole } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { ecrImageOf } from './ecr-image.ts';
import { liveProbe } from './live-probe.ts';

interface StatorContainerProps {
  /** Name of the container and of its log streams. */
  readonly name: string;
  readonly image: ContainerImage;
  /** Arguments of `stator`. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, EcsSecret>>;
  readonly logGroup: ILogGroup;
  /** Port at which ECS checks its `/live`. */
  readonly healthPort: number;
  /** Ports that others reach. @default none */
  readonly ports?: readonly number[];
  /** Whether its end ends the task. If not, ECS starts only this container again. @default true */
  readonly isEssential?: boolean;
}

/** Name of the volume on which all containers of a task may write. */
const SCRATCH = 'scratch';

/** Creates a task on ARM. Its containers have read-only file systems, and write to a common volume. */
export function createTask(scope: Construct, props: FargateTaskDefinitionProps): FargateTaskDefinition {
  const task = new FargateTaskDefinition(scope, 'Task', {
    runtimePlatform: { cpuArchitecture: CpuArchitecture.ARM64, operatingSystemFamily: OperatingSystemFamily.LINUX },
    ...props,
  });
  task.addVolume({ name: SCRATCH });
  assumeForOwnTasks(task.taskRole);
  return task;
}

/** Lets ECS use a role only for tasks of this account and region, whichever caller asks. */
function assumeForOwnTasks({ node: { defaultChild } }: IRole): void {
  if (!(defaultChild instanceof CfnRole)) throw new Error('the role of a task must be one that this app creates');
  defaultChild.addPropertyOverride('AssumeRolePolicyDocument.Statement.0.Condition', {
    StringEquals: { 'aws:SourceAccount': Aws.ACCOUNT_ID },
    ArnLike: { 'aws:SourceArn': `arn:${Aws.PARTITION}:ecs:${Aws.REGION}:${Aws.ACCOUNT_ID}:*` },
  });
}

/**
 * Writes the log of a container named `name`. Lines that the service does not take wait up to a bound, and are lost
 * beyond it. With the driver's other mode a process waits when it writes a line, and stands still while the service
 * cannot be reached.
 */
export function createLogDriver(logGroup: ILogGroup, name: string): LogDriver {
  return LogDrivers.awsLogs({
    logGroup,
    streamPrefix: name,
    mode: AwsLogDriverMode.NON_BLOCKING,
    maxBufferSize: Size.mebibytes(16),
  });
}

/** Adds a container that runs `stator` without root rights, on a file system that is read-only except for `/tmp`. */
export function addStatorContainer(task: FargateTaskDefinition, props: StatorContainerProps): ContainerDefinition {
  const { name, healthPort, ports = [], isEssential = true } = props;
  const container = task.addContainer(name, {
    image: props.image,
    command: [...props.command],
    user: '1000:1000',
    readonlyRootFilesystem: true,
    essential: isEssential,
    ...(isEssential ? {} : { enableRestartPolicy: true, restartAttemptPeriod: Duration.seconds(60) }),
    environment: { ...props.environment },
    secrets: { ...props.secrets },
    portMappings: ports.map((containerPort) => ({ containerPort })),
    logging: createLogDriver(props.logGroup, name),
    stopTimeout: Duration.seconds(120), // to drain after SIGTERM: the longest that Fargate gives
    healthCheck: {
      command: liveProbe(healthPort),
      interval: Duration.seconds(10),
      startPeriod: Duration.seconds(30),
    },
  });
  container.addMountPoints({ containerPath: '/tmp', readOnly: false, sourceVolume: SCRATCH });
  return container;
}

/** Paths that the Dockerfiles under `infra/images` copy: the image is built anew when one of them has changed. */
export const IMAGE_SOURCES = [
  'package.json',
  'package-lock.json',
  'esbuild.config.mjs',
  'short-locals.mjs',
  'third-party.mjs',
  'through-doors.mjs',
  'LICENSE',
  'bin',
  'functions',
  'proto',
  'shared',
  'web',
  'infra/images',
  'infra/no-bowser.mjs',
  'infra/no-proto-loader.mjs',
] as const;

/**
 * Returns the image of `stator` at `uri`. Without a `uri`, the deployment builds the image from this repository. The
 * deployment then needs Docker, but a synthesis does not.
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

/** Returns an existing image. From a private registry of ECR, a task may read only what its role names. */
function pushedImage(scope: Construct, uri: string): ContainerImage {
  const image = ecrImageOf(uri);
  if (image === undefined) return ContainerImage.fromRegistry(uri);
  const { repositoryArn, repositoryName, tagOrDigest } = image;
  const repository = Repository.fromRepositoryAttributes(scope, 'PushedImage', { repositoryArn, repositoryName });
  return ContainerImage.fromEcrRepository(repository, tagOrDigest);
}
