import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { type ISecurityGroup, Port, SecurityGroup } from 'aws-cdk-lib/aws-ec2';
import {
  ContainerImage,
  Secret as ContainerSecret,
  CpuArchitecture,
  FargateService,
  FargateTaskDefinition,
  LogDrivers,
  OperatingSystemFamily,
} from 'aws-cdk-lib/aws-ecs';
import type { IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { DnsRecordType } from 'aws-cdk-lib/aws-servicediscovery';
import { Construct } from 'constructs';
import type { NatsService } from './nats-service.ts';
import type { Network } from './network.ts';

export interface RouterServiceProps {
  /** Has a way to the internet, or the image comes from a registry that the network reaches. */
  readonly network: Network;
  /** Its index follows the events there. */
  readonly nats: NatsService;
  /** Image whose entry point is `stator`. */
  readonly image: string;
  /** Beside those that every resident router has. */
  readonly environment: Readonly<Record<string, string>>;
  /** Tasks: one answers, the others follow and take over. @default 2 */
  readonly count?: number;
  /** MiB; about 40 bytes for each block that the workers hold, and 200 MiB. @default 2048 */
  readonly memoryMiB?: number;
}

/** `DYN_TCP_RPC_PORT` of the tasks. */
const PLANE_PORT = 8700;
const HTTP_PORT = 8000;

/**
 * The resident router as a service: containers with the role `router`, of which the holder of the lease answers the functions
 * and the others stand by. All are reached under one internal name, which is `STATOR_ROUTER_URL` of those that ask.
 *
 *     function ── 8700 ──> router group ── worker ports ──> worker group
 *                              └── 4222 ──> NATS
 */
export class RouterService extends Construct implements IGrantable {
  /** `STATOR_ROUTER_URL`. */
  readonly url: string;
  /** Of the tasks. */
  readonly grantPrincipal: IPrincipal;

  constructor(scope: Construct, id: string, props: RouterServiceProps) {
    super(scope, id);
    const { network, nats, count = 2, memoryMiB = 2048 } = props;
    const task = createTask(this, props, memoryMiB);
    this.grantPrincipal = task.taskRole;
    const group = new SecurityGroup(this, 'SecurityGroup', {
      vpc: network.vpc,
      description: 'Resident routers of Stator',
    });
    const asGroup = group as ISecurityGroup;
    group.connections.allowFrom(network.functionSecurityGroup, Port.tcp(PLANE_PORT), 'Choose');
    network.allowToWorkers(asGroup);
    nats.allowFrom(asGroup);
    new FargateService(this, 'Service', {
      cluster: nats.cluster,
      taskDefinition: task,
      desiredCount: checkCount(count),
      minHealthyPercent: 100,
      maxHealthyPercent: 200,
      circuitBreaker: { rollback: true },
      vpcSubnets: network.subnets,
      securityGroups: [asGroup],
      cloudMapOptions: {
        name: 'router',
        cloudMapNamespace: nats.names,
        dnsRecordType: DnsRecordType.A,
        dnsTtl: Duration.seconds(5),
      },
    });
    this.url = `tcp://router.${nats.names.namespaceName}:${PLANE_PORT}`;
  }
}

function createTask(scope: Construct, props: RouterServiceProps, memoryLimitMiB: number): FargateTaskDefinition {
  const task = new FargateTaskDefinition(scope, 'Task', {
    cpu: 1024, // one core: the router is one thread
    memoryLimitMiB,
    runtimePlatform: { cpuArchitecture: CpuArchitecture.ARM64, operatingSystemFamily: OperatingSystemFamily.LINUX },
  });
  const logGroup = new LogGroup(scope, 'LogGroup', {
    retention: RetentionDays.ONE_MONTH,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  const live = `fetch('http://127.0.0.1:${HTTP_PORT}/live').then((r)=>process.exit(r.ok?0:1),()=>process.exit(1))`;
  task.addContainer('router', {
    image: ContainerImage.fromRegistry(props.image),
    command: ['frontend'],
    environment: {
      ...props.environment,
      STATOR_ROLES: 'router',
      DYN_ROUTER_MODE: 'kv',
      DYN_ROUTER_REPLICA_SYNC: 'true', // a standby that takes over knows what is under way
      DYN_EVENT_PLANE: 'nats',
      NATS_SERVER: props.nats.url,
      DYN_TCP_RPC_PORT: String(PLANE_PORT),
      // The function has no way yet to read a token, so its callers prove nothing. Who reaches the port is what the security
      // group says: functions of this stack, and nobody outside the VPC.
      STATOR_PLANE_OPEN: 'on',
      DYN_HTTP_HOST: '127.0.0.1',
      DYN_HTTP_PORT: String(HTTP_PORT),
    },
    secrets: { NATS_AUTH_TOKEN: ContainerSecret.fromSecretsManager(props.nats.token as ISecret) },
    portMappings: [{ containerPort: PLANE_PORT }],
    logging: LogDrivers.awsLogs({ logGroup, streamPrefix: 'router' }),
    stopTimeout: Duration.seconds(30),
    healthCheck: {
      command: ['CMD', 'node', '-e', live],
      interval: Duration.seconds(10),
      startPeriod: Duration.seconds(30),
    },
  });
  return task;
}

function checkCount(count: number): number {
  if (!Number.isInteger(count) || count < 1 || count > 8)
    throw new Error(`count must lie between 1 and 8, not ${count}`);
  return count;
}
