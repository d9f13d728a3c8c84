import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { type ISecurityGroup, Port, SecurityGroup } from 'aws-cdk-lib/aws-ec2';
import {
  Cluster,
  ContainerImage,
  Secret as ContainerSecret,
  CpuArchitecture,
  FargateService,
  FargateTaskDefinition,
  type ICluster,
  LogDrivers,
  OperatingSystemFamily,
} from 'aws-cdk-lib/aws-ecs';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { DnsRecordType, PrivateDnsNamespace } from 'aws-cdk-lib/aws-servicediscovery';
import { Construct } from 'constructs';
import type { Network } from './network.ts';

export interface NatsServiceProps {
  /** Has a way to the internet: the image comes from there. */
  readonly network: Network;
  /** Image with `nats-server` and a shell. @default the official one */
  readonly image?: string;
  /** Disk for the event logs and snapshots; a quarter of it is left free. Between 21 and 200. @default 40 */
  readonly storageGb?: number;
}

const CLIENT_PORT = 4222;
const MONITOR_PORT = 8222;
const IMAGE = 'nats:2.11-alpine';
/** Share of the disk that JetStream may fill. */
const STORAGE_SHARE = 0.75;

/**
 * One NATS server with JetStream for KV events, load reports and snapshots of the router's index. Everything in it can be
 * made again from the workers, so the disk goes with the task: after a restart routers ask the workers for what they hold. A
 * fleet that is to ride out the loss of a server brings a cluster of three of its own, and gives its address to `NATS_SERVER`.
 */
export class NatsService extends Construct {
  /** `NATS_SERVER` of workers and routers. */
  readonly url: string;
  /** Holds `NATS_AUTH_TOKEN` of workers and routers. */
  readonly token: Secret;
  /** Where it runs, and what else runs containers beside it. */
  readonly cluster: ICluster;
  /** Internal names, its own among them. */
  readonly names: PrivateDnsNamespace;
  readonly #group: SecurityGroup;

  constructor(scope: Construct, id: string, props: NatsServiceProps) {
    super(scope, id);
    const { network, image = IMAGE } = props;
    const storageGb = checkStorage(props.storageGb ?? 40);
    const { vpc } = network;
    this.token = new Secret(this, 'Token', {
      description: 'Stator: NATS_AUTH_TOKEN',
      generateSecretString: { excludePunctuation: true, passwordLength: 48 },
    });
    const task = new FargateTaskDefinition(this, 'Task', {
      cpu: 1024,
      memoryLimitMiB: 2048,
      ephemeralStorageGiB: storageGb,
      runtimePlatform: { cpuArchitecture: CpuArchitecture.ARM64, operatingSystemFamily: OperatingSystemFamily.LINUX },
    });
    const logGroup = new LogGroup(this, 'LogGroup', {
      retention: RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    task.addContainer('nats', {
      image: ContainerImage.fromRegistry(image),
      entryPoint: ['/bin/sh', '-c'],
      command: [`printf '%s' '${configurationOf(storageGb)}' > /tmp/nats.conf && exec nats-server -c /tmp/nats.conf`],
      secrets: { NATS_TOKEN: ContainerSecret.fromSecretsManager(this.token as ISecret) },
      portMappings: [{ containerPort: CLIENT_PORT }],
      logging: LogDrivers.awsLogs({ logGroup, streamPrefix: 'nats' }),
      healthCheck: {
        command: ['CMD-SHELL', `wget -q -O /dev/null http://127.0.0.1:${MONITOR_PORT}/healthz || exit 1`],
        interval: Duration.seconds(10),
        startPeriod: Duration.seconds(20),
      },
    });
    this.#group = new SecurityGroup(this, 'SecurityGroup', { vpc, description: 'NATS of Stator' });
    this.names = new PrivateDnsNamespace(this, 'Names', { vpc, name: 'stator.internal' });
    // The class declares optional properties as `T | undefined`, which exactOptionalPropertyTypes tells apart.
    this.cluster = new Cluster(this, 'Cluster', { vpc }) as ICluster;
    new FargateService(this, 'Service', {
      cluster: this.cluster,
      taskDefinition: task,
      desiredCount: 1,
      minHealthyPercent: 0, // two servers under one name would be two logs
      maxHealthyPercent: 100,
      circuitBreaker: { rollback: true },
      vpcSubnets: network.subnets,
      securityGroups: [this.#group],
      cloudMapOptions: {
        name: 'nats',
        cloudMapNamespace: this.names,
        dnsRecordType: DnsRecordType.A,
        dnsTtl: Duration.seconds(10),
      },
    });
    this.url = `nats://nats.${this.names.namespaceName}:${CLIENT_PORT}`;
    this.allowFrom(network.workerSecurityGroup);
  }

  /** Lets clients reach the server. */
  allowFrom(clients: ISecurityGroup): void {
    this.#group.addIngressRule(clients, Port.tcp(CLIENT_PORT), 'NATS');
  }

  /** Allows a worker or a router to read the token. */
  grantToken(grantee: IGrantable): Grant {
    return this.token.grantRead(grantee);
  }
}

/** In NATS' own syntax; `$NATS_TOKEN` is read from the environment by the server. No single quotes. */
function configurationOf(storageGb: number): string {
  return [
    `port: ${CLIENT_PORT}`,
    `http: "127.0.0.1:${MONITOR_PORT}"`,
    'max_payload: 15728640', // prompt embeddings
    `jetstream { store_dir: "/tmp/jetstream", max_file_store: ${Math.floor(storageGb * STORAGE_SHARE)}G }`,
    'authorization { token: $NATS_TOKEN }',
  ].join('\n');
}

function checkStorage(storageGb: number): number {
  if (storageGb < 21 || storageGb > 200) {
    throw new Error(`storageGb must lie between 21 and 200, as Fargate has it, not ${storageGb}`);
  }
  return storageGb;
}
