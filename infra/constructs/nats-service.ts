import { Duration } from 'aws-cdk-lib';
import { type ISecurityGroup, Port, SecurityGroup, type SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { FargateService, ICluster } from 'aws-cdk-lib/aws-ecs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { DnsRecordType, PrivateDnsNamespace } from 'aws-cdk-lib/aws-servicediscovery';
import { Construct } from 'constructs';
import { NATS_PORTS } from '../nats-configuration.ts';
import { createTask } from './containers.ts';
import type { FleetSecrets } from './fleet-secrets.ts';
import { createLogGroup } from './log-groups.ts';
import { addNatsContainer } from './nats-container.ts';
import type { Network } from './network.ts';
import { createService } from './services.ts';

interface NatsServiceProps {
  /** Network with a way to the internet, from which the image comes. */
  readonly network: Network;
  /** Cluster in which it runs. */
  readonly cluster: ICluster;
  /** The users of its roles. */
  readonly secrets: FleetSecrets;
  /** One server, or three in a zone each. */
  readonly servers: 1 | 3;
  /** Disk of each server; a quarter of it is left free. Between 21 and 200. */
  readonly storageGb: number;
  /** Adds a listener for WebSockets. */
  readonly hasWebSocket: boolean;
  /** Secret with `certificate`, `key` and `ca` (PEM). @default none: no TLS */
  readonly tlsSecret?: ISecret | undefined;
  /** CPU units of a server. */
  readonly cpu: number;
  readonly memoryMiB: number;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
}

/** Share of the disk that JetStream may fill. */
const STORAGE_SHARE = 0.75;
const DOMAIN = 'stator.internal';

/**
 * NATS with JetStream for KV events, load reports and snapshots of the router's index, one server or three.
 *
 * Everything in it can be made again from the workers, so a disk goes with its task. Each of three servers is a service
 * of its own, with its own name in its own zone. Each stream has three copies, and a server that comes back with an
 * empty disk gets its copy from the others. A deployment restarts them one after the other, never two at once.
 */
export class NatsService extends Construct {
  /** `NATS_SERVER` of workers and routers: all servers, separated by commas. */
  readonly url: string;
  /** `STATOR_NATS_STREAM_REPLICAS`. */
  readonly replicas: number;
  /** A server each. */
  readonly services: readonly FargateService[];
  readonly #group: SecurityGroup;

  constructor(scope: Construct, id: string, props: NatsServiceProps) {
    super(scope, id);
    const { network, servers, hasWebSocket } = props;
    checkStorage(props.storageGb);
    const names = servers === 1 ? ['nats'] : Array.from({ length: servers }, (_, at) => `nats-${at}`);
    const hosts = names.map((name) => `${name}.${DOMAIN}`);
    this.#group = new SecurityGroup(this, 'SecurityGroup', { vpc: network.vpc, description: 'NATS of Stator' });
    // Servers may send to any address, so only the rule for what comes in is missing.
    if (servers > 1) this.#group.addIngressRule(this.#group, Port.tcp(NATS_PORTS.cluster), 'Servers');
    if (hasWebSocket) this.#group.connections.allowFrom(network.workerSecurityGroup, Port.tcp(NATS_PORTS.webSocket));
    const logGroup = createLogGroup(this, props.logRetentionDays);
    const domain = new PrivateDnsNamespace(this, 'Names', { vpc: network.vpc, name: DOMAIN });
    const routeSecret =
      servers === 1
        ? undefined
        : (new Secret(this, 'Routes', {
            description: 'Stator: what NATS servers prove to each other',
            generateSecretString: { excludePunctuation: true, passwordLength: 64 },
          }) as ISecret);
    const cluster = servers === 1 ? undefined : hosts;
    const services: FargateService[] = [];
    names.forEach((name, at) => {
      const zone = servers === 1 ? network.taskSubnets : zoneOf(network, at);
      const service = this.#addServer(name, zone, { ...props, domain, logGroup, routeSecret, hosts: cluster });
      const before = services.at(-1);
      if (before !== undefined) service.node.addDependency(before); // one after the other, at every deployment
      services.push(service);
    });
    this.services = services;
    const scheme = props.tlsSecret === undefined ? 'nats' : 'tls';
    this.url = hosts.map((host) => `${scheme}://${host}:${NATS_PORTS.clients}`).join(',');
    this.replicas = servers;
    this.allowFrom(network.workerSecurityGroup);
  }

  /** Lets clients reach the servers. */
  allowFrom(clients: ISecurityGroup): void {
    this.#group.addIngressRule(clients, Port.tcp(NATS_PORTS.clients), 'NATS');
  }

  #addServer(name: string, vpcSubnets: SubnetSelection, parts: ServerParts): FargateService {
    const { hosts, storageGb, hasWebSocket } = parts;
    const scope = new Construct(this, name);
    const task = createTask(scope, {
      cpu: parts.cpu,
      memoryLimitMiB: parts.memoryMiB,
      ephemeralStorageGiB: storageGb,
    });
    addNatsContainer(task, {
      ...parts,
      configuration: {
        name,
        storageGb: Math.floor(storageGb * STORAGE_SHARE),
        hasWebSocket,
        ...(hosts === undefined ? {} : { cluster: hosts }),
      },
    });
    return createService(scope, {
      part: 'nats',
      isAlone: true,
      cluster: parts.cluster,
      taskDefinition: task,
      desiredCount: 1,
      vpcSubnets,
      securityGroups: [this.#group as ISecurityGroup],
      cloudMapOptions: {
        name,
        cloudMapNamespace: parts.domain,
        dnsRecordType: DnsRecordType.A,
        dnsTtl: Duration.seconds(5),
      },
    });
  }
}

interface ServerParts extends NatsServiceProps {
  readonly domain: PrivateDnsNamespace;
  readonly logGroup: ILogGroup;
  readonly routeSecret: ISecret | undefined;
  /** All servers, if there are several. */
  readonly hosts: readonly string[] | undefined;
}

function zoneOf({ vpc, taskSubnets }: Network, at: number): SubnetSelection {
  const { subnets } = vpc.selectSubnets(taskSubnets);
  const zones = [...new Map(subnets.map((each) => [each.availabilityZone, each])).values()];
  const subnet = zones[at];
  if (subnet === undefined) throw new Error(`three NATS servers need subnets in three zones, not in ${zones.length}`);
  return { subnets: [subnet] };
}

function checkStorage(storageGb: number): void {
  if (storageGb < 21 || storageGb > 200) {
    throw new Error(`storageGb must lie between 21 and 200, as Fargate has it, not ${storageGb}`);
  }
}
