import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { Cluster, ContainerInsights, type ICluster } from 'aws-cdk-lib/aws-ecs';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct } from 'constructs';
import { type EdgeListener, EdgeService } from '../constructs/edge-service.ts';
import { NatsService } from '../constructs/nats-service.ts';
import { Observability } from '../constructs/observability.ts';
import { PublicFront } from '../constructs/public-front.ts';
import { statorImage } from '../constructs/stator-image.ts';
import { namespacesOf, type Settings } from '../settings.ts';
import type { DataStack } from './data-stack.ts';
import { describeFront } from './outputs.ts';

export interface EdgeStackProps extends StackProps {
  readonly data: DataStack;
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/** Everything between a client and the workers, which a release replaces: API, function, container edge and NATS. */
export class EdgeStack extends Stack {
  readonly cluster: ICluster;
  /** What workers are told. */
  readonly workerEnvironment: Readonly<Record<string, string>>;

  constructor(scope: Construct, id: string, { data, httpFunctionCode: code, settings, ...props }: EdgeStackProps) {
    super(scope, id, { description: 'Stator: API, function, container edge and NATS', ...props });
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
      ...store.environment,
      DYN_REQUEST_PLANE: 'tcp',
      DYN_EVENT_PLANE: 'nats',
      NATS_SERVER: nats.url,
      STATOR_NATS_STREAM_REPLICAS: String(nats.replicas),
      DYN_LOG: 'info',
      DYN_LOGGING_JSONL: 'true',
    };
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
      environment: {
        ...this.workerEnvironment,
        ...store.edgeEnvironment(),
        ...namespacesOf(settings),
        DYN_ENABLE_ANTHROPIC_API: 'true',
        DYN_HTTP_BODY_LIMIT_MB: String(settings.limits.bodyMb),
        STATOR_HOLD_TIMEOUT: String(settings.limits.holdSecs),
        STATOR_KEY_CACHE_SECS: String(settings.keys.cacheSecs),
        STATOR_METRICS_AUTH: String(settings.keys.metrics),
        STATOR_DOCS_AUTH: String(settings.keys.docs),
      },
    });
    if (edges.container.listener === 'none') store.grantRoute(edge);
    else store.grantEdge(edge);
    const front = new PublicFront(this, 'Front', { code, network, store, settings });
    const { releaseAlarms } = new Observability(this, 'Observability', { front, edge, settings });
    front.function.rollOutGradually(releaseAlarms);
    describeFront(this, store, front);
    this.#describeFleet(data, nats, edge);
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
    const { loadBalancer } = edge;
    if (loadBalancer !== undefined)
      output('EdgeTarget', loadBalancer.loadBalancerDnsName, 'Where the container edge is');
  }
}

function listenerOf(scope: Construct, { edges, domain }: Settings): EdgeListener {
  const { listener: kind } = edges.container;
  if (kind !== 'public') return { kind };
  if (domain === undefined) throw new Error('edges.container.listener: public needs domain');
  const certificate = Certificate.fromCertificateArn(scope, 'EdgeCertificate', domain.certificateArn);
  return { kind, certificate, hasGrpc: edges.container.grpc };
}
