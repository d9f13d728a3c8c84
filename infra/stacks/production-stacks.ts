import { Annotations, CfnOutput, Fn, RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { Cluster, ContainerInsights, type ICluster } from 'aws-cdk-lib/aws-ecs';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import { ARecord, HostedZone, RecordTarget } from 'aws-cdk-lib/aws-route53';
import { LoadBalancerTarget } from 'aws-cdk-lib/aws-route53-targets';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import { statorImage } from '../constructs/containers.ts';
import type { EdgeListener } from '../constructs/edge-balancer.ts';
import { EdgeService } from '../constructs/edge-service.ts';
import { FleetStore, keyOf } from '../constructs/fleet-store.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { MockFleet } from '../constructs/mock-fleet.ts';
import { NatsService } from '../constructs/nats-service.ts';
import { Network } from '../constructs/network.ts';
import { DataObservability } from '../constructs/observability/data-watches.ts';
import { ProductionObservability } from '../constructs/observability/observability.ts';
import { plannerQueueOf } from '../constructs/planner-queue.ts';
import { EVERY_PROCESS, frontendEnvironment } from '../constructs/process-environment.ts';
import { describeFront, PublicFront } from '../constructs/public-front.ts';
import { describeRotation } from '../constructs/rotation.ts';
import { addSpending } from '../constructs/spending.ts';
import { followReferences } from '../constructs/stack-references.ts';
import { tagCosts } from '../constructs/tags.ts';
import { forProduction, passesBlocks, type Settings, zonesOf } from '../settings/index.ts';

interface FleetStackProps extends StackProps {
  readonly data: DataStack;
  readonly edge: EdgeStack;
  readonly settings: Settings;
  readonly fleet: Settings['fleets'][string];
  /** Of the fleet in the file. */
  readonly fleetName: string;
}

/** The workers of one fleet. */
class FleetStack extends Stack {
  constructor(scope: Construct, id: string, { data, edge, settings, fleet, fleetName, ...props }: FleetStackProps) {
    super(scope, id, { description: `Stator: workers of ${fleet.model}`, ...props });
    const workers = new MockFleet(this, 'Workers', {
      ...fleet.size,
      network: data.network,
      cluster: edge.cluster,
      secrets: data.store.secrets,
      image: statorImage(this, settings.images.edge),
      environment: edge.workerEnvironment,
      given: { ...fleet, fleet: fleetName },
      model: fleet.model,
      workers: fleet.workers,
      pool: fleet.pool,
      generation: fleet.generation,
      logRetentionDays: settings.logRetentionDays,
    });
    data.store.grantWork(workers);
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }
}

/** How a release of the function gets its requests: a tenth of them for five minutes, watched by alarms, or all at once. */
export const ROLLOUTS = ['gradual', 'now'] as const;

interface Releasing {
  readonly rollout: (typeof ROLLOUTS)[number];
}

interface EdgeStackProps extends StackProps, Releasing {
  readonly data: DataStack;
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/** Everything between a client and the workers, which a release replaces: API, function, container edge and NATS. */
class EdgeStack extends Stack {
  readonly cluster: ICluster;
  /** What workers are told. */
  readonly workerEnvironment: Readonly<Record<string, string>>;

  constructor(scope: Construct, id: string, props: EdgeStackProps) {
    const { data, httpFunctionCode: code, settings, rollout, ...stackProps } = props;
    super(scope, id, { description: 'Stator: API, function, container edge and NATS', ...stackProps });
    const { network, store } = data;
    const { secrets } = store;
    const { logRetentionDays, sizes, edges } = settings;
    this.cluster = new Cluster(this, 'Cluster', {
      vpc: network.vpc,
      containerInsightsV2: ContainerInsights.ENABLED, // the number of tasks, by which streams are scaled
    }) as ICluster; // optional properties as `T | undefined`
    const { tlsSecretArn } = settings.nats;
    const nats = new NatsService(this, 'Nats', {
      ...sizes.nats,
      network,
      secrets,
      logRetentionDays,
      cluster: this.cluster,
      servers: settings.nats.servers,
      storageGb: settings.nats.storageGb,
      hasWebSocket: settings.nats.websocket,
      tlsSecret: tlsSecretArn === undefined ? undefined : Secret.fromSecretCompleteArn(this, 'NatsTls', tlsSecretArn),
    });
    this.workerEnvironment = {
      ...EVERY_PROCESS,
      ...store.environment,
      DYN_EVENT_PLANE: 'nats',
      NATS_SERVER: nats.url,
      STATOR_NATS_STREAM_REPLICAS: String(nats.replicas),
    };
    const queue = plannerQueueOf(this, settings.planner.queueArn);
    const edge = new EdgeService(this, 'Edge', {
      ...sizes.edge,
      ...edges.container,
      network,
      secrets,
      nats,
      logRetentionDays,
      cluster: this.cluster,
      image: statorImage(this, settings.images.edge),
      listener: listenerOf(this, settings),
      isRetained: settings.retain,
      limits: settings.limits,
      given: edges.container.environment,
      environment: {
        ...this.workerEnvironment,
        ...store.edgeEnvironment(),
        ...frontendEnvironment(settings),
        ...queue?.environment,
        DYN_HTTP_BODY_LIMIT_MB: String(settings.limits.bodyMb),
        STATOR_HOLD_TIMEOUT: String(settings.limits.holdSecs),
      },
    });
    if (edges.container.listener === 'none') store.grantRoute(edge);
    else store.grantEdge(edge);
    queue?.grantTell(edge);
    if (settings.planner.endpoint) queue?.addEndpoint(network, edge.group);
    const front = new PublicFront(this, 'Front', { code, network, store, settings });
    const { releaseAlarms } = new ProductionObservability(this, 'Observability', { front, edge, nats, settings });
    if (rollout === 'now') front.function.rollOutAtOnce();
    else front.function.rollOutGradually(releaseAlarms);
    if (settings.alarms.topicArn === undefined) {
      const why = 'alarms tell nobody: set alarms.topicArn to a topic of SNS';
      Annotations.of(this).addWarningV2('stator:alarms.topicArn', why);
    }
    describeFront(this, store, front);
    describeRotation(this, secrets, this.cluster);
    nameEdge(this, edge, settings);
    this.#describeFleet(data, nats, edge);
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }

  /** For workers on machines of your own. */
  #describeFleet({ network, store }: DataStack, nats: NatsService, edge: EdgeService): void {
    const policy = new ManagedPolicy(this, 'WorkerPolicy', { description: 'Stator: what a worker needs' });
    store.grantWork(policy);
    store.secrets.grantRead('worker', policy);
    const output = (id: string, value: string, description: string) => new CfnOutput(this, id, { value, description });
    output('WorkerPolicyArn', policy.managedPolicyArn, 'Policy for the instance role of workers');
    output('WorkerSecurityGroupId', network.workerSecurityGroup.securityGroupId, 'Security group for workers');
    output('NatsServer', nats.url, 'NATS_SERVER of workers');
    output('NatsSecretArn', store.secrets.natsUser('worker').secretArn, 'STATOR_NATS_SECRET of workers');
    output('PlaneTokenSecretArn', store.secrets.planeToken.secretArn, 'STATOR_PLANE_TOKEN_SECRET of workers');
    const { behind } = edge;
    if (behind !== undefined) output('EdgeTarget', behind.balancer.loadBalancerDnsName, 'Where the container edge is');
  }
}

/** Makes the name of the public container edge, where its zone is known. */
function nameEdge(scope: Construct, { behind }: EdgeService, { edges, domain }: Settings): void {
  const { containerName, hostedZone } = domain ?? {};
  if (edges.container.listener !== 'public' || behind === undefined) return;
  if (containerName === undefined || hostedZone === undefined) return;
  new ARecord(scope, 'EdgeRecord', {
    zone: HostedZone.fromHostedZoneAttributes(scope, 'EdgeZone', {
      hostedZoneId: hostedZone.id,
      zoneName: hostedZone.name,
    }),
    recordName: `${containerName}.`,
    target: RecordTarget.fromAlias(new LoadBalancerTarget(behind.balancer)),
  });
}

function listenerOf(scope: Construct, { edges, domain }: Settings): EdgeListener {
  const { listener: kind } = edges.container;
  if (kind !== 'public') return { kind };
  if (domain === undefined) throw new Error('edges.container.listener: public needs domain');
  const certificate = Certificate.fromCertificateArn(scope, 'EdgeCertificate', domain.certificateArn);
  return { kind, certificate, hasGrpc: edges.container.grpc };
}

interface DataStackProps extends StackProps {
  readonly settings: Settings;
}

/** What lasts longer than any release: the network, tables, files and secrets of a fleet. */
class DataStack extends Stack {
  readonly network: Network;
  readonly store: FleetStore;
  readonly #zones: number;

  constructor(scope: Construct, id: string, { settings, ...props }: DataStackProps) {
    super(scope, id, {
      description: 'Stator: network, tables, files and secrets',
      terminationProtection: settings.retain,
      ...props,
    });
    this.#zones = zonesOf(settings.network);
    const { natGateways = this.#zones } = settings.network;
    this.network = new Network(this, 'Network', {
      ...settings.network,
      natGateways,
      zones: this.#zones,
      flowLogDays: settings.network.flowLogs ? settings.logRetentionDays : undefined,
      workerTransfers: settings.network.workerTransfers || passesBlocks(settings),
    });
    const removalPolicy = settings.retain ? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE : RemovalPolicy.DESTROY;
    this.store = new FleetStore(this, 'Store', { removalPolicy, encryptionKey: keyOf(this, settings) });
    // A first deployment that fails, fails at a quota of the network: before there are tables that are protected against deletion.
    this.store.node.addDependency(this.network);
    if (settings.retain) keepLogs(this);
    new DataObservability(this, 'Observability', { store: this.store, network: this.network, settings });
  }

  /** A stack that is bound to no region knows two of its zones. */
  override get availabilityZones(): string[] {
    return Array.from({ length: this.#zones }, (_, at) => Fn.select(at, Fn.getAzs()));
  }
}

interface ProductionProps extends Releasing {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/**
 * A deployment in stacks that live for different times: data, edge, and one for each fleet. They belong to the app, not to a
 * `Stage`: `cdk deploy --all` passes over the stacks of a stage.
 */
export class ProductionStacks extends Construct {
  constructor(scope: Construct, id: string, { httpFunctionCode, settings: given, rollout }: ProductionProps) {
    super(scope, id);
    const settings = forProduction(given);
    const data = new DataStack(this, 'Data', { settings, stackName: `${id}-Data` });
    const edge = new EdgeStack(this, 'Edge', { data, httpFunctionCode, settings, rollout, stackName: `${id}-Edge` });
    for (const [name, fleet] of Object.entries(settings.fleets)) {
      const own = `Fleet-${name}${fleet.generation === undefined ? '' : `-${fleet.generation}`}`;
      new FleetStack(this, own, { data, edge, settings, fleet, fleetName: name, stackName: `${id}-${own}` });
    }
    addSpending(edge, settings);
    for (const stack of this.node.children as Stack[]) tagCosts(stack, settings.name, 'production');
  }
}
