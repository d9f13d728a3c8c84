import {
  GatewayVpcEndpointAwsService,
  type ISecurityGroup,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  type SubnetSelection,
  SubnetType,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';

export interface NetworkProps {
  /** Availability zones to use. @default 2 */
  readonly zones?: number;
  /**
   * NAT gateways. The function needs none: it talks to DynamoDB through a free gateway endpoint and to workers inside the
   * VPC. Workers that pull images or models from the internet do. @default 0: no public subnets, no internet access
   */
  readonly natGateways?: number;
  /** First TCP port on which the workers of one machine listen (`DYN_TCP_RPC_PORT`). @default 8800 */
  readonly workerPortFirst?: number;
  /** Workers that one machine can hold, each on a port of its own. @default 64 */
  readonly workerPortCount?: number;
}

/** Status servers of workers (`DYN_SYSTEM_PORT`), from which models are fetched. */
const STATUS_PORTS = Port.tcpRange(9100, 9163);

/**
 * Where functions, routers and workers meet. The security groups of both live here, so that stacks which use them never refer to
 * each other.
 *
 *     function ── 443 ──> DynamoDB (gateway endpoint)
 *         └── worker ports, status ports ──> worker group
 */
export class Network extends Construct {
  readonly vpc: IVpc;
  /** Subnets of functions and workers. */
  readonly subnets: SubnetSelection;
  /** Group of the functions: may reach workers and AWS endpoints, is reached by nobody. */
  readonly functionSecurityGroup: ISecurityGroup;
  /** Group of the workers: reached by functions on the request plane's ports. */
  readonly workerSecurityGroup: ISecurityGroup;
  readonly #workerPorts: Port;

  constructor(scope: Construct, id: string, props: NetworkProps = {}) {
    super(scope, id);
    const natGateways = props.natGateways ?? 0;
    this.vpc = createVpc(this, props.zones ?? 2, natGateways);
    this.subnets = { subnetType: natGateways > 0 ? SubnetType.PRIVATE_WITH_EGRESS : SubnetType.PRIVATE_ISOLATED };

    const functionGroup = new SecurityGroup(this, 'FunctionSecurityGroup', {
      vpc: this.vpc,
      description: 'Functions of Stator',
      allowAllOutbound: false,
    });
    const workerGroup = new SecurityGroup(this, 'WorkerSecurityGroup', {
      vpc: this.vpc,
      description: 'Workers of Stator',
      allowAllOutbound: true,
    });
    this.#workerPorts = toPortRange(props.workerPortFirst ?? 8800, props.workerPortCount ?? 64);
    // A gateway endpoint keeps the public addresses of DynamoDB; its prefix list has no name that is known before deployment.
    functionGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'AWS endpoints');
    functionGroup.connections.allowTo(workerGroup, this.#workerPorts, 'Request plane');
    functionGroup.connections.allowTo(workerGroup, STATUS_PORTS, 'Model files');
    this.functionSecurityGroup = functionGroup;
    this.workerSecurityGroup = workerGroup;
  }

  /** Lets callers that may go anywhere reach the workers on the request plane. */
  allowToWorkers(callers: ISecurityGroup): void {
    this.workerSecurityGroup.addIngressRule(callers, this.#workerPorts, 'Request plane');
    this.workerSecurityGroup.addIngressRule(callers, STATUS_PORTS, 'Model files');
  }
}

function createVpc(scope: Construct, maxAzs: number, natGateways: number): IVpc {
  const isolated = { name: 'Private', subnetType: SubnetType.PRIVATE_ISOLATED, cidrMask: 20 };
  const egress = { name: 'Private', subnetType: SubnetType.PRIVATE_WITH_EGRESS, cidrMask: 20 };
  const open = { name: 'Public', subnetType: SubnetType.PUBLIC, cidrMask: 24 };
  const vpc = new Vpc(scope, 'Vpc', {
    maxAzs,
    natGateways,
    subnetConfiguration: natGateways > 0 ? [egress, open] : [isolated],
    gatewayEndpoints: { DynamoDb: { service: GatewayVpcEndpointAwsService.DYNAMODB } },
    // Nothing uses the default group. Emptying it would take a custom resource with rights over security groups.
    restrictDefaultSecurityGroup: false,
  });
  return vpc as IVpc; // the class declares optional properties as `T | undefined`, which exactOptionalPropertyTypes tells apart
}

function toPortRange(first: number, count: number): Port {
  if (first < 1024 || count < 1 || first + count - 1 > 65_535) {
    throw new Error(
      `worker ports ${first} to ${first + count - 1} must lie between 1024 and 65535: change workerPortFirst`,
    );
  }
  return Port.tcpRange(first, first + count - 1);
}
