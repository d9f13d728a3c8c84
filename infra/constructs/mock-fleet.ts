import type { ContainerImage, Secret as EcsSecret, ICluster } from 'aws-cdk-lib/aws-ecs';
import type { IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { addStatorContainer, createTask } from './containers.ts';
import type { FleetSecrets } from './fleet-secrets.ts';
import { completeEnvironment } from './given-environment.ts';
import { createLogGroup } from './log-groups.ts';
import type { Network } from './network.ts';
import { createService } from './services.ts';

/** Settings of `stator.config.ts` for the workers of a fleet. */
export interface GivenSettings {
  readonly fleet: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Arguments of `stator worker`. */
  readonly arguments: readonly string[];
}

export interface MockFleetProps {
  readonly network: Network;
  readonly cluster: ICluster;
  readonly secrets: FleetSecrets;
  /** Image whose entry point is `stator`. */
  readonly image: ContainerImage;
  /** Variables that name the fleet's tables, files and NATS. */
  readonly environment: Readonly<Record<string, string>>;
  /** Further settings, of the fleet with this name in the file. */
  readonly given: GivenSettings;
  /** Name of the model that it serves. */
  readonly model: string;
  readonly workers: number;
  /** Part of a request that its workers do; `agg` is all of it. */
  readonly pool: 'agg' | 'prefill' | 'decode';
  /** Suffix of its namespace: a second generation beside the first. @default none */
  readonly generation?: string | undefined;
  /** CPU units of a worker. */
  readonly cpu: number;
  readonly memoryMiB: number;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
}

const PLANE_PORT = 8800;
const STATUS_PORT = 9100;

/**
 * Workers without an engine, a task each, which answer in readable text: for trying a deployment out before there are
 * GPUs.
 */
export class MockFleet extends Construct implements IGrantable {
  readonly grantPrincipal: IPrincipal;

  constructor(scope: Construct, id: string, props: MockFleetProps) {
    super(scope, id);
    const { network, generation } = props;
    const task = createTask(this, { cpu: props.cpu, memoryLimitMiB: props.memoryMiB });
    this.grantPrincipal = task.taskRole;
    const worker = mockWorker(this, {
      ...props,
      secrets: props.secrets.containerSecrets('worker'),
      own: {
        ...props.environment,
        DYN_TCP_RPC_PORT: String(PLANE_PORT),
        DYN_SYSTEM_PORT: String(STATUS_PORT),
        ...(generation === undefined ? {} : { DYN_NAMESPACE_WORKER_SUFFIX: generation }),
      },
    });
    addStatorContainer(task, {
      ...worker,
      name: 'worker',
      image: props.image,
      healthPort: STATUS_PORT,
      ports: [PLANE_PORT, STATUS_PORT],
      logGroup: createLogGroup(this, props.logRetentionDays),
    });
    createService(this, {
      part: 'worker',
      cluster: props.cluster,
      taskDefinition: task,
      desiredCount: props.workers,
      vpcSubnets: network.taskSubnets,
      securityGroups: [network.workerSecurityGroup],
    });
  }
}

interface MockWorkerProps {
  readonly model: string;
  readonly pool?: MockFleetProps['pool'];
  readonly secrets: Readonly<Record<string, EcsSecret>>;
  /** Variables that the deployment sets by itself. */
  readonly own: Readonly<Record<string, string>>;
  readonly given?: GivenSettings | undefined;
}

/** Resources of a container that runs one worker without an engine. */
export function mockWorker(scope: Construct, { model, pool = 'agg', secrets, own, given }: MockWorkerProps) {
  const mode = pool === 'agg' ? [] : [`--disaggregation-mode=${pool}`];
  const argv = ['--engine=mocker', `--model-name=${model}`, ...mode, ...(given?.arguments ?? [])];
  const environment = completeEnvironment(scope, {
    process: 'worker',
    argv,
    own,
    given: given?.environment ?? {},
    secrets: Object.keys(secrets),
    path: `fleets.${given?.fleet}.environment`,
  });
  return { command: ['worker', ...argv], environment, secrets };
}
