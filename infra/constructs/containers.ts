import { Duration } from 'aws-cdk-lib';
import {
  type ContainerDefinition,
  type ContainerImage,
  CpuArchitecture,
  type Secret as EcsSecret,
  FargateTaskDefinition,
  type FargateTaskDefinitionProps,
  LogDrivers,
  OperatingSystemFamily,
} from 'aws-cdk-lib/aws-ecs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

export interface StatorContainerProps {
  /** Also what its lines of the log are named after. */
  readonly name: string;
  readonly image: ContainerImage;
  /** Arguments of `stator`. */
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, EcsSecret>>;
  readonly logGroup: ILogGroup;
  /** Its `/live` is asked there. */
  readonly healthPort: number;
  /** Ports that others reach. @default none */
  readonly ports?: readonly number[];
  /** Its end ends the task. Else it is started again by itself. @default true */
  readonly isEssential?: boolean;
  /** Time to drain after SIGTERM. @default 120 seconds, the longest that Fargate gives */
  readonly stopTimeout?: Duration;
}

/** Name of the volume on which all containers of a task may write. */
const SCRATCH = 'scratch';

/** A task on ARM with a volume for what its containers write, whose own file systems are read-only. */
export function createTask(scope: Construct, props: FargateTaskDefinitionProps): FargateTaskDefinition {
  const task = new FargateTaskDefinition(scope, 'Task', {
    runtimePlatform: { cpuArchitecture: CpuArchitecture.ARM64, operatingSystemFamily: OperatingSystemFamily.LINUX },
    ...props,
  });
  task.addVolume({ name: SCRATCH });
  return task;
}

/** Adds a container that runs `stator`: not as root, on a read-only file system but for `/tmp`. */
export function addStatorContainer(task: FargateTaskDefinition, props: StatorContainerProps): ContainerDefinition {
  const { name, healthPort, ports = [], isEssential = true } = props;
  const live = `fetch('http://127.0.0.1:${healthPort}/live').then((r)=>process.exit(r.ok?0:1),()=>process.exit(1))`;
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
    logging: LogDrivers.awsLogs({ logGroup: props.logGroup, streamPrefix: name }),
    stopTimeout: props.stopTimeout ?? Duration.seconds(120),
    healthCheck: {
      command: ['CMD', 'node', '-e', live],
      interval: Duration.seconds(10),
      startPeriod: Duration.seconds(30),
    },
  });
  container.addMountPoints({ containerPath: '/tmp', readOnly: false, sourceVolume: SCRATCH });
  return container;
}
