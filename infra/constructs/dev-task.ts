import { Stack } from 'aws-cdk-lib';
import { Cluster, type ContainerImage, type ICluster } from 'aws-cdk-lib/aws-ecs';
import type { IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { SettingsError } from '../settings/index.ts';
import { addStatorContainer, createTask } from './containers.ts';
import type { FleetSecrets } from './fleet-secrets.ts';
import { completeEnvironment } from './given-environment.ts';
import { createLogGroup } from './log-groups.ts';
import { type GivenSettings, mockWorker } from './mock-fleet.ts';
import { addNatsContainer } from './nats-container.ts';
import type { Network } from './network.ts';
import { createService } from './services.ts';

export interface DevTaskProps {
  readonly network: Network;
  readonly secrets: FleetSecrets;
  /** Image whose entry point is `stator`. */
  readonly image: ContainerImage;
  /** Environment that edge and workers share: the names of the fleet's tables and buckets. */
  readonly environment: Readonly<Record<string, string>>;
  /** Environment of the edge beside that. */
  readonly edgeEnvironment: Readonly<Record<string, string>>;
  /** Further settings of the edge, of `edges.container.environment`. */
  readonly edgeGiven: Readonly<Record<string, string>>;
  /** Further settings of the workers, of the fleet in the file. */
  readonly given: GivenSettings | undefined;
  readonly cpu: number;
  readonly memoryMiB: number;
  /** Name of the model that the mock workers serve. */
  readonly model: string;
  /** Mock workers, a process each. */
  readonly workers: number;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
}

/** Ports of the containers, which share the address of their task. Those of the request plane are the workers' own. */
const EDGE_HTTP_PORT = 8000;
const PLANE_PORT_FIRST = 8800;
const STATUS_PORT_FIRST = 9100;
const WORKERS_MAX = 8;

/**
 * A whole fleet in one task, for looking at it: a resident router, NATS and mock workers. It has a public address, by
 * which it fetches its images without a NAT gateway. No client can connect to that address. Its security group is that
 * of the workers, so that functions reach them.
 *
 *     function ── worker ports ──> [ edge (router) | worker | worker | NATS on loopback ]
 */
export class DevTask extends Construct implements IGrantable {
  readonly grantPrincipal: IPrincipal;
  /** `STATOR_EMF_SERVICE` of the edge. */
  readonly emfService: string;
  readonly cluster: ICluster;

  constructor(scope: Construct, id: string, props: DevTaskProps) {
    super(scope, id);
    const { network, workers, given } = props;
    if (!Number.isInteger(workers) || workers < 0 || workers > WORKERS_MAX) {
      const path = given === undefined ? 'workers' : `fleets.${given.fleet}.workers`;
      throw new SettingsError(
        `${path}: ${workers}: allowed in dev are 0 to ${WORKERS_MAX}, as one task holds them all`,
      );
    }
    this.emfService = Stack.of(this).stackName;
    const task = createTask(this, { cpu: props.cpu, memoryLimitMiB: props.memoryMiB });
    this.grantPrincipal = task.taskRole;
    const logGroup = createLogGroup(this, props.logRetentionDays);
    const nats = addNatsContainer(task, {
      configuration: { name: 'nats', storageGb: 8 },
      secrets: props.secrets,
      logGroup,
    });
    const edge = addStatorContainer(task, {
      ...props,
      name: 'edge',
      command: ['frontend'],
      environment: this.#edgeEnvironment(props),
      secrets: props.secrets.containerSecrets('router'),
      healthPort: EDGE_HTTP_PORT,
      logGroup,
    });
    const containers = Array.from({ length: workers }, (_, at) =>
      addStatorContainer(task, {
        ...mockWorker(this, {
          ...props,
          secrets: props.secrets.containerSecrets('worker'),
          own: {
            ...this.#fleetEnvironment(props, PLANE_PORT_FIRST + 1 + at),
            DYN_SYSTEM_PORT: String(STATUS_PORT_FIRST + at),
          },
        }),
        name: `worker-${at}`,
        image: props.image,
        healthPort: STATUS_PORT_FIRST + at,
        logGroup,
        isEssential: false, // the others take over, as in a fleet, and it is started again
      }),
    );
    for (const container of [edge, ...containers]) container.addContainerDependencies({ container: nats });
    // The class declares its optional properties as `T | undefined`.
    this.cluster = new Cluster(this, 'Cluster', { vpc: network.vpc }) as ICluster;
    createService(this, {
      part: 'all',
      isAlone: true,
      cluster: this.cluster,
      taskDefinition: task,
      desiredCount: 1,
      assignPublicIp: network.hasPublicTasks,
      vpcSubnets: network.taskSubnets,
      securityGroups: [network.workerSecurityGroup],
    });
  }

  #edgeEnvironment(props: DevTaskProps): Record<string, string> {
    return completeEnvironment(this, {
      process: 'frontend',
      given: props.edgeGiven,
      secrets: Object.keys(props.secrets.containerSecrets('router')),
      path: 'edges.container.environment',
      own: {
        ...this.#fleetEnvironment(props, PLANE_PORT_FIRST),
        ...props.edgeEnvironment,
        STATOR_ROLES: 'router',
        DYN_ROUTER_MODE: 'kv',
        DYN_HTTP_HOST: '127.0.0.1',
        DYN_HTTP_PORT: String(EDGE_HTTP_PORT),
        STATOR_EMF: 'on',
        STATOR_EMF_SERVICE: this.emfService,
      },
    });
  }

  #fleetEnvironment({ environment }: DevTaskProps, planePort: number): Record<string, string> {
    return {
      ...environment,
      DYN_EVENT_PLANE: 'nats',
      NATS_SERVER: 'nats://127.0.0.1:4222',
      DYN_TCP_RPC_PORT: String(planePort),
      STATOR_NATS_STREAM_MAX_MB: '1024',
    };
  }
}
