import { Annotations, CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { Cluster, ContainerInsights, type ICluster } from 'aws-cdk-lib/aws-ecs';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import { LoadBalancerTarget } from 'aws-cdk-lib/aws-route53-targets';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct } from 'constructs';
import { consoleEnvironment, hasConsole } from '../constructs/console-environment.ts';
import { statorImage } from '../constructs/containers.ts';
import type { EdgeListener } from '../constructs/edge-balancer.ts';
import { EdgeService } from '../constructs/edge-service.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { NatsService } from '../constructs/nats-service.ts';
import { ProductionObservability } from '../constructs/observability/observability.ts';
import { plannedFleetsOf, warnOfRates } from '../constructs/planner/planned-fleets.ts';
import { plannerQueueOf } from '../constructs/planner/planner-queue.ts';
import { EVERY_PROCESS, frontendEnvironment } from '../constructs/process-environment.ts';
import { describeFront, PublicFront } from '../constructs/public-front.ts';
import { describeRotation } from '../constructs/rotation.ts';
import { followReferences } from '../constructs/stack-references.ts';
import { addZoneRecord } from '../constructs/zone-record.ts';
import { holdSecsOf, type Settings } from '../settings/index.ts';
import type { DataStack } from './data-stack.ts';
import type { PlannerStack } from './planner-stack.ts';

/**
 * Ways for a release of the function to get its requests. It gets a tenth of them for five minutes, watched by alarms,
 * or all at once.
 */
export const ROLLOUTS = ['gradual', 'now'] as const;

export interface Releasing {
  readonly rollout: (typeof ROLLOUTS)[number];
}

interface EdgeStackProps extends StackProps, Releasing {
  readonly data: DataStack;
  /** Planner of the deployment. @default none: another one scales the fleets, or there are none to scale */
  readonly planner?: PlannerStack | undefined;
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/** Everything between a client and the workers, which a release replaces: API, function, container edge and NATS. */
export class EdgeStack extends Stack {
  readonly cluster: ICluster;
  /** Environment of workers. */
  readonly workerEnvironment: Readonly<Record<string, string>>;

  constructor(scope: Construct, id: string, props: EdgeStackProps) {
    const { data, planner, httpFunctionCode: code, settings, rollout, ...stackProps } = props;
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
    const queue = plannerQueueOf(this, settings, planner?.queue);
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
        ...consoleEnvironment(this, settings, planner?.table),
        DYN_HTTP_BODY_LIMIT_MB: String(settings.limits.bodyMb),
        STATOR_HOLD_TIMEOUT: String(holdSecsOf(settings)),
      },
    });
    if (edges.container.listener === 'none') store.grantRoute(edge);
    else store.grantEdge(edge);
    if (hasConsole(settings)) planner?.table.grantShow(edge);
    queue?.grantTell(edge);
    if (settings.planner.endpoint) {
      const hasMachines = Object.values(settings.fleets).some(({ kind }) => kind === 'ec2');
      const machines = hasMachines ? { Machines: network.workerSecurityGroup } : {};
      queue?.addEndpoint(network, { Edges: edge.group, ...machines });
    }
    const front = new PublicFront(this, 'Front', { code, network, store, settings, plans: planner?.table });
    const { releaseAlarms } = new ProductionObservability(this, 'Observability', {
      ...{ front, edge, nats, settings },
      planner: planner?.watched,
    });
    if (rollout === 'now') front.function.rollOutAtOnce();
    else front.function.rollOutGradually(releaseAlarms);
    if (settings.alarms.topicArn === undefined) warnOfAlarms(this);
    describeFront(this, store, front);
    describeRotation(this, secrets, this.cluster);
    nameEdge(this, edge, settings);
    describeGpus(this, settings);
    this.#describeFleet(data, nats, edge);
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }

  /** Adds a policy and outputs for workers on machines of your own. */
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

function warnOfAlarms(scope: Construct): void {
  const why = 'no one hears the alarms: set alarms.topicArn to a topic of SNS';
  Annotations.of(scope).addWarningV2('stator:alarms.topicArn', why);
}

/** Adds the fleets with GPUs as a planner reads them. */
function describeGpus(scope: Construct, settings: Settings): void {
  const { specs } = plannedFleetsOf(settings);
  if (specs.fleets.length === 0) return;
  warnOfRates(scope, specs.fleets);
  new CfnOutput(scope, 'PlannerFleets', { value: JSON.stringify(specs), description: 'STATOR_PLANNER_FLEETS' });
}

/** Creates the DNS name of the public container edge, if its zone is known. */
function nameEdge(scope: Construct, { behind }: EdgeService, { edges, domain }: Settings): void {
  const { containerName, hostedZone } = domain ?? {};
  if (edges.container.listener !== 'public' || behind === undefined) return;
  if (containerName === undefined || hostedZone === undefined) return;
  const target = new LoadBalancerTarget(behind.balancer);
  addZoneRecord(scope, 'EdgeRecord', { name: containerName, hostedZone, target });
}

function listenerOf(scope: Construct, { edges, domain }: Settings): EdgeListener {
  const { listener: kind } = edges.container;
  if (kind !== 'public') return { kind };
  if (domain === undefined) throw new Error('edges.container.listener: public needs domain');
  const certificate = Certificate.fromCertificateArn(scope, 'EdgeCertificate', domain.certificateArn);
  return { kind, certificate, hasGrpc: edges.container.grpc };
}
