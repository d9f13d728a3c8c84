import { Duration, Stack } from 'aws-cdk-lib';
import type { Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import { type ISecurityGroup, Port, SecurityGroup } from 'aws-cdk-lib/aws-ec2';
import {
  AvailabilityZoneRebalancing,
  type ContainerImage,
  type FargateService,
  type ICluster,
} from 'aws-cdk-lib/aws-ecs';
import type { IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import type { EmbeddedMetric, IndexMetric } from '../../shared/telemetry/index.ts';
import { addStatorContainer, createTask } from './containers.ts';
import {
  addBalancer,
  type EdgeBalancer,
  type EdgeListener,
  GRPC_PORT,
  HTTP_PORT,
  hearsGrpc,
  KEEP_ALIVE,
} from './edge-balancer.ts';
import { Firewall } from './firewall.ts';
import type { FleetSecrets } from './fleet-secrets.ts';
import { completeEnvironment } from './given-environment.ts';
import { createLogGroup } from './log-groups.ts';
import { embeddedMetric } from './metrics.ts';
import type { NatsService } from './nats-service.ts';
import type { Network } from './network.ts';
import { createService } from './services.ts';

interface EdgeServiceProps {
  readonly network: Network;
  readonly cluster: ICluster;
  readonly secrets: FleetSecrets;
  /** NATS servers whose events the router's index follows. */
  readonly nats: NatsService;
  /** Image whose entry point is `stator`. */
  readonly image: ContainerImage;
  /** Variables that name the fleet's tables and files. */
  readonly environment: Readonly<Record<string, string>>;
  /** Further settings, of `edges.container.environment`. */
  readonly given: Readonly<Record<string, string>>;
  /** Listener for clients. With `none`, the tasks are only resident routers. */
  readonly listener: EdgeListener;
  /** Tasks that always run: one answers the functions, the others follow and take over. */
  readonly tasks: number;
  readonly tasksMax: number;
  /** Streams that a task should have; above it, more tasks start. */
  readonly streamsPerTask: number;
  /** CPU units; the router is one thread. */
  readonly cpu: number;
  /** About 40 bytes for each block that the workers hold, and 200 MiB. */
  readonly memoryMiB: number;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
  /** Whether the load balancer is protected against deletion, and its access logs outlast the stack. */
  readonly isRetained: boolean;
  /** Request rates of a public listener, for all callers together and for each address; more are refused with 429. */
  readonly limits: { readonly requestsPerSecond: number; readonly requestsPerAddress?: number | undefined };
}

/** `DYN_TCP_RPC_PORT` of the tasks. */
const PLANE_PORT = 8700;

/**
 * The container edge: one image with the role `router`, and `http` and `grpc` if clients reach it. The task that holds
 * the lease answers the functions, which find it in discovery. The other tasks stand by.
 *
 *     function ── 8700 ──> edge group ── worker ports ──> worker group
 *     clients ── 443 ──> load balancer ── 8000, 8001 ──┘└── 4222 ──> NATS
 *
 * `Choose` is on port 8700, to which the load balancer sends nothing: only functions reach it.
 */
export class EdgeService extends Construct implements IGrantable {
  /** Role of the tasks. */
  readonly grantPrincipal: IPrincipal;
  readonly service: FargateService;
  /** Undefined if no client reaches its HTTP server. */
  readonly behind: EdgeBalancer | undefined;
  /** `STATOR_EMF_SERVICE` of the tasks. */
  readonly emfService: string;
  readonly group: ISecurityGroup;

  constructor(scope: Construct, id: string, props: EdgeServiceProps) {
    super(scope, id);
    const { network, nats, listener, tasks, tasksMax } = props;
    if (tasks < 1 || tasksMax < tasks)
      throw new Error(`tasks (${tasks}) must lie between 1 and tasksMax (${tasksMax})`);
    this.emfService = Stack.of(this).stackName;
    const task = createEdgeTask(this, props, this.emfService);
    this.grantPrincipal = task.taskRole;
    const group = new SecurityGroup(this, 'SecurityGroup', { vpc: network.vpc, description: 'Edge of Stator' });
    this.group = group as ISecurityGroup; // its optional properties are `T | undefined`
    group.connections.allowFrom(network.functionSecurityGroup, Port.tcp(PLANE_PORT), 'Choose');
    network.allowToWorkers(this.group);
    nats.allowFrom(this.group);
    this.service = createService(this, {
      part: 'edge',
      cluster: props.cluster,
      taskDefinition: task,
      vpcSubnets: network.taskSubnets, // spread over its zones
      availabilityZoneRebalancing: AvailabilityZoneRebalancing.ENABLED, // after a zone was lost, tasks go back to it
      securityGroups: [this.group],
    });
    this.behind =
      listener.kind === 'none' ? undefined : addBalancer(this, { ...props, listener, service: this.service, group });
    // The service has no number of tasks: each release would set a scaled service back to it, and cut streams.
    const scaling = this.service.autoScaleTaskCount({ minCapacity: tasks, maxCapacity: tasksMax });
    scaling.scaleOnCpuUtilization('Cpu', {
      targetUtilizationPercent: 60,
      scaleInCooldown: Duration.minutes(15), // a task that leaves drains for as long
      scaleOutCooldown: Duration.minutes(1),
    });
    if (this.behind === undefined) return;
    // Connections would mislead: one of HTTP/2 may have a hundred streams, and an idle one has none.
    scaling.scaleToTrackCustomMetric('Streams', {
      metric: this.metric('ActiveStreams'),
      targetValue: props.streamsPerTask,
      scaleInCooldown: Duration.minutes(15),
      scaleOutCooldown: Duration.minutes(1),
    });
    if (!this.behind.isPublic) return;
    new Firewall(this, 'Firewall', {
      resourceArn: this.behind.balancer.loadBalancerArn,
      ...props.limits,
      answers: true,
    });
  }

  /** Returns a metric of requests, streams or the fleet from the tasks' log lines. An average is that of a task. */
  metric(name: EmbeddedMetric | IndexMetric, options: MetricOptions = {}): Metric {
    return embeddedMetric(name, { Service: this.emfService }, options);
  }
}

function createEdgeTask(scope: Construct, props: EdgeServiceProps, emfService: string) {
  const { listener } = props;
  const hasHttp = listener.kind !== 'none';
  const hasGrpc = hearsGrpc(listener);
  const task = createTask(scope, { cpu: props.cpu, memoryLimitMiB: props.memoryMiB });
  const secrets = props.secrets.containerSecrets('router');
  const environment = completeEnvironment(scope, {
    process: 'frontend',
    given: props.given,
    secrets: Object.keys(secrets),
    path: 'edges.container.environment',
    own: {
      ...props.environment,
      STATOR_ROLES: ['router', ...(hasHttp ? ['http'] : []), ...(hasGrpc ? ['grpc'] : [])].sort().join(),
      ...(hasGrpc ? { STATOR_GRPC_PORT: String(GRPC_PORT) } : {}),
      DYN_ROUTER_MODE: 'kv',
      DYN_ROUTER_REPLICA_SYNC: 'true', // a standby that takes over knows what is under way
      DYN_TCP_RPC_PORT: String(PLANE_PORT),
      DYN_HTTP_HOST: hasHttp ? '0.0.0.0' : '127.0.0.1',
      DYN_HTTP_PORT: String(HTTP_PORT),
      ...(hasHttp ? { STATOR_HTTP_KEEP_ALIVE_SECS: String(KEEP_ALIVE.toSeconds()) } : {}),
      DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: '110', // Fargate kills after 120
      STATOR_EMF: 'on',
      STATOR_EMF_SERVICE: emfService,
    },
  });
  addStatorContainer(task, {
    name: 'edge',
    image: props.image,
    command: ['frontend'],
    environment,
    secrets,
    healthPort: HTTP_PORT,
    ports: [...(hasHttp ? [HTTP_PORT] : []), ...(hasGrpc ? [GRPC_PORT] : []), PLANE_PORT],
    logGroup: createLogGroup(scope, props.logRetentionDays),
  });
  return task;
}
