import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { type ISecurityGroup, Peer, Port, SecurityGroup } from 'aws-cdk-lib/aws-ec2';
import type { FargateService } from 'aws-cdk-lib/aws-ecs';
import {
  ApplicationLoadBalancer,
  ApplicationProtocol,
  ApplicationProtocolVersion,
  ApplicationTargetGroup,
  type HealthCheck,
  type ListenerCertificate,
  ListenerCondition,
  SslPolicy,
  TargetGroupLoadBalancingAlgorithmType,
  TargetType,
} from 'aws-cdk-lib/aws-elasticloadbalancingv2';
import type { Construct } from 'constructs';
import { AccessLogs } from './access-logs.ts';
import type { Network } from './network.ts';

/** Clients that reach the HTTP server of the edge: none, those in the VPC, or the internet by TLS. */
export type EdgeListener =
  | { readonly kind: 'none' }
  | { readonly kind: 'internal' }
  | {
      readonly kind: 'public';
      readonly certificate: ListenerCertificate;
      /** KServe v2 on the same name and port. @default false */
      readonly hasGrpc?: boolean;
    };

/** Load balancer in front of tasks that serve clients. */
export interface EdgeBalancer {
  readonly balancer: ApplicationLoadBalancer;
  /** Target groups by their names. */
  readonly targets: Readonly<Record<string, ApplicationTargetGroup>>;
  readonly isPublic: boolean;
}

interface EdgeBalancerProps {
  readonly network: Network;
  readonly listener: Exclude<EdgeListener, { kind: 'none' }>;
  /** Service that it sends requests to. */
  readonly service: FargateService;
  /** Group of the tasks. */
  readonly group: SecurityGroup;
  readonly logRetentionDays: number;
  /** Whether it is protected against deletion, and its access logs outlast the stack. */
  readonly isRetained: boolean;
}

/** Ports of the tasks behind it. */
export const HTTP_PORT = 8000;
export const GRPC_PORT = 8001;
/** Paths of gRPC's services, of which no HTTP route is one: KServe, health and reflection. */
const GRPC_PATHS = ['/inference.GRPCInferenceService/*', '/grpc.health.v1.Health/*', '/grpc.reflection.*'];
/** Between two bytes of a connection; the longest that a load balancer waits. */
const BALANCER_IDLE = Duration.seconds(4000);
/**
 * Idle time of the tasks' servers. It must exceed the load balancer's, or that sends requests into closed connections.
 */
export const KEEP_ALIVE = Duration.seconds(4060);
/** A stream may last as long as a function's. */
const DRAIN = Duration.seconds(900);

/** Puts a load balancer in front of the tasks of an edge. */
export function addBalancer(scope: Construct, props: EdgeBalancerProps): EdgeBalancer {
  const { network, listener, group: edge, isRetained, logRetentionDays: retentionDays } = props;
  const isPublic = listener.kind === 'public';
  const group = new SecurityGroup(scope, 'BalancerSecurityGroup', {
    vpc: network.vpc,
    description: 'Load balancer of Stator',
    allowAllOutbound: false,
  });
  const balancer = new ApplicationLoadBalancer(scope, 'Balancer', {
    vpc: network.vpc,
    internetFacing: isPublic,
    securityGroup: group as ISecurityGroup,
    idleTimeout: BALANCER_IDLE,
    // Names with other characters than letters, digits and hyphens: two servers may take them for two different
    // headers.
    dropInvalidHeaderFields: true,
    deletionProtection: isRetained,
  });
  const removalPolicy = isRetained ? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE : RemovalPolicy.DESTROY;
  new AccessLogs(scope, 'AccessLogs', { balancer, retentionDays, removalPolicy });
  const targets = addTargets(scope, 'Targets', {
    ...props,
    port: HTTP_PORT,
    healthCheck: { path: '/live' },
  });
  const port = balancer.addListener('Listener', {
    open: false,
    defaultTargetGroups: [targets],
    ...(isPublic
      ? { port: 443, certificates: [listener.certificate], sslPolicy: SslPolicy.RECOMMENDED_TLS }
      : { port: 80, protocol: ApplicationProtocol.HTTP }),
  });
  const callers = isPublic ? Peer.anyIpv4() : Peer.ipv4(network.vpc.vpcCidrBlock);
  group.addIngressRule(callers, Port.tcp(isPublic ? 443 : 80), 'Clients');
  edge.connections.allowFrom(group, Port.tcp(HTTP_PORT), 'Load balancer');
  if (!hearsGrpc(listener)) return { balancer, targets: { Http: targets }, isPublic };
  const grpcTargets = addTargets(scope, 'GrpcTargets', {
    ...props,
    port: GRPC_PORT,
    protocolVersion: ApplicationProtocolVersion.GRPC,
    healthCheck: { path: '/grpc.health.v1.Health/Check', healthyGrpcCodes: '0' },
  });
  port.addTargetGroups('Grpc', {
    priority: 1,
    conditions: [ListenerCondition.pathPatterns(GRPC_PATHS)],
    targetGroups: [grpcTargets],
  });
  edge.connections.allowFrom(group, Port.tcp(GRPC_PORT), 'Load balancer, gRPC');
  return { balancer, targets: { Http: targets, Grpc: grpcTargets }, isPublic };
}

interface TargetsProps extends Pick<EdgeBalancerProps, 'network' | 'service'> {
  readonly port: number;
  /** @default HTTP/1.1 */
  readonly protocolVersion?: ApplicationProtocolVersion;
  readonly healthCheck: HealthCheck;
}

/** Creates targets. Each request goes to the task with the fewest, and a task is healthy when it says so itself. */
function addTargets(scope: Construct, id: string, props: TargetsProps): ApplicationTargetGroup {
  const { network, service, port, protocolVersion, healthCheck } = props;
  return new ApplicationTargetGroup(scope, id, {
    vpc: network.vpc,
    port,
    protocol: ApplicationProtocol.HTTP,
    ...(protocolVersion === undefined ? {} : { protocolVersion }),
    targetType: TargetType.IP,
    targets: [service.loadBalancerTarget({ containerName: 'edge', containerPort: port })],
    deregistrationDelay: DRAIN,
    loadBalancingAlgorithmType: TargetGroupLoadBalancingAlgorithmType.LEAST_OUTSTANDING_REQUESTS,
    healthCheck: { interval: Duration.seconds(10), healthyThresholdCount: 2, ...healthCheck },
  });
}

/** Whether KServe v2 is served on the same name and port. */
export function hearsGrpc(listener: EdgeListener): boolean {
  return listener.kind === 'public' && listener.hasGrpc === true;
}
