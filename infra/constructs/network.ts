import { Aws } from 'aws-cdk-lib';
import {
  CfnSecurityGroupEgress,
  CfnSecurityGroupIngress,
  FlowLogDestination,
  GatewayVpcEndpoint,
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
import { AnyPrincipal, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import type { Settings } from '../settings/index.ts';
import { createLogGroup } from './log-groups.ts';

/** A VPC that is there already. */
export type ExistingVpc = NonNullable<Settings['network']['vpc']>;

export interface NetworkProps {
  /** Availability zones to use. @default 2 */
  readonly zones?: number;
  /** Their names. @default the first ones of the account */
  readonly availabilityZones?: readonly string[] | undefined;
  /**
   * NAT gateways, through which private tasks fetch images and reach AWS. Without them, tasks have public addresses
   * that accept no connections. The function needs no gateway: it reaches DynamoDB and S3 through free gateway
   * endpoints, and workers inside the VPC. @default 0
   */
  readonly natGateways?: number;
  /** Workers reach each other on every port. @default false: nothing goes between them */
  readonly workerTransfers?: boolean;
  /** Days for which the log of connections is kept. @default none: there is no such log */
  readonly flowLogDays?: number | undefined;
  /** Instead of a VPC of this stack's own. @default one is made */
  readonly vpc?: ExistingVpc | undefined;
}

/** Ports of the workers of one machine (`DYN_TCP_RPC_PORT`), one for each worker. */
const WORKER_PORTS = Port.tcpRange(8800, 8863);
/** Status servers of workers (`DYN_SYSTEM_PORT`), from which models are fetched. */
const STATUS_PORTS = Port.tcpRange(9100, 9163);

/**
 * Where functions, edges and workers meet. The security groups of functions and workers live here, so that stacks which
 * use them never refer to each other.
 *
 *     function ── 443 ──> DynamoDB, S3 (gateway endpoints)
 *         └── worker ports, status ports ──> worker group
 */
export class Network extends Construct {
  readonly vpc: IVpc;
  /** Subnets of functions. */
  readonly functionSubnets: SubnetSelection;
  /** Subnets of tasks and workers. */
  readonly taskSubnets: SubnetSelection;
  /** Whether tasks need an address of their own to reach the internet. No client can connect to it. */
  readonly hasPublicTasks: boolean;
  /** Security group of the functions: it may reach workers and AWS endpoints, and nothing reaches it. */
  readonly functionSecurityGroup: ISecurityGroup;
  /** Group of the workers: reached by functions on the request plane's ports. */
  readonly workerSecurityGroup: ISecurityGroup;

  constructor(scope: Construct, id: string, props: NetworkProps = {}) {
    super(scope, id);
    const { natGateways = 0, vpc } = props;
    this.hasPublicTasks = vpc === undefined && natGateways === 0;
    this.vpc = vpc === undefined ? createVpc(this, props) : useVpc(this, vpc);
    const egress = { subnetType: SubnetType.PRIVATE_WITH_EGRESS };
    this.functionSubnets = this.hasPublicTasks ? { subnetType: SubnetType.PRIVATE_ISOLATED } : egress;
    this.taskSubnets = this.hasPublicTasks ? { subnetType: SubnetType.PUBLIC } : egress;

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
    // A gateway endpoint keeps the public addresses of its service; its prefix list has no name that is known before
    // deployment.
    functionGroup.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'AWS endpoints');
    functionGroup.connections.allowTo(workerGroup, WORKER_PORTS, 'Request plane');
    functionGroup.connections.allowTo(workerGroup, STATUS_PORTS, 'Model files');
    const { flowLogDays } = props;
    if (flowLogDays !== undefined) writeFlows(this, this.vpc, flowLogDays);
    restrictTables(this.vpc);
    if (props.workerTransfers === true) joinGroup(this, workerGroup);
    this.functionSecurityGroup = functionGroup;
    this.workerSecurityGroup = workerGroup;
  }

  /** Lets callers that may go anywhere reach the workers on the request plane. */
  allowToWorkers(callers: ISecurityGroup): void {
    // `true` puts the rules in the callers' stack.
    this.workerSecurityGroup.addIngressRule(callers, WORKER_PORTS, 'Request plane', true);
    this.workerSecurityGroup.addIngressRule(callers, STATUS_PORTS, 'Model files', true);
  }
}

/** Writes a line for each connection, allowed or refused. */
function writeFlows(scope: Construct, vpc: IVpc, days: number): void {
  const destination = FlowLogDestination.toCloudWatchLogs(createLogGroup(scope, days, 'Flows'));
  vpc.addFlowLog('Flows', { destination });
}

/**
 * Prevents processes inside from carrying data into tables of another account, with keys of that account. The endpoint
 * of S3 has no such policy: layers of images are in buckets of AWS, and so are the packages of machines.
 */
function restrictTables(vpc: IVpc): void {
  const endpoint = vpc.node.tryFindChild('DynamoDb');
  if (!(endpoint instanceof GatewayVpcEndpoint)) return;
  endpoint.addToPolicy(
    new PolicyStatement({
      principals: [new AnyPrincipal()],
      actions: ['dynamodb:*'],
      resources: [`arn:${Aws.PARTITION}:dynamodb:${Aws.REGION}:${Aws.ACCOUNT_ID}:*`],
      conditions: { StringEquals: { 'aws:PrincipalAccount': Aws.ACCOUNT_ID } },
    }),
  );
}

/**
 * Lets the members of a group reach each other by every protocol. What EFA sends has no address: only rules that name
 * the group let it through.
 */
function joinGroup(scope: Construct, { securityGroupId: groupId }: SecurityGroup): void {
  const every = { groupId, ipProtocol: '-1', description: 'Blocks of the KV cache between workers' };
  new CfnSecurityGroupIngress(scope, 'FromWorkers', { ...every, sourceSecurityGroupId: groupId });
  new CfnSecurityGroupEgress(scope, 'ToWorkers', { ...every, destinationSecurityGroupId: groupId });
}

const GATEWAY_SERVICES = { DynamoDb: GatewayVpcEndpointAwsService.DYNAMODB, S3: GatewayVpcEndpointAwsService.S3 };

function createVpc(scope: Construct, { zones = 2, availabilityZones: names, natGateways = 0 }: NetworkProps): IVpc {
  const hasNat = natGateways > 0;
  const subnetType = hasNat ? SubnetType.PRIVATE_WITH_EGRESS : SubnetType.PRIVATE_ISOLATED;
  const vpc = new Vpc(scope, 'Vpc', {
    ...(names === undefined ? { maxAzs: zones } : { availabilityZones: names.slice(0, zones) }),
    natGateways,
    subnetConfiguration: [
      { name: 'Private', subnetType, cidrMask: 20 },
      // A task asks for its address; nothing else that is started here gets one.
      { name: 'Public', subnetType: SubnetType.PUBLIC, cidrMask: 24, mapPublicIpOnLaunch: false },
    ],
    gatewayEndpoints: Object.fromEntries(Object.entries(GATEWAY_SERVICES).map(([id, service]) => [id, { service }])),
    // Nothing uses the default group. Emptying it would take a custom resource with rights over security groups.
    restrictDefaultSecurityGroup: false,
  });
  // The class declares its optional properties as `T | undefined`, which exactOptionalPropertyTypes tells apart.
  return vpc as IVpc;
}

function useVpc(scope: Construct, existing: ExistingVpc): IVpc {
  const { id: vpcId, availabilityZones, privateSubnetIds, privateRouteTableIds, publicSubnetIds } = existing;
  const hasTables = privateRouteTableIds.length > 0;
  const vpc = Vpc.fromVpcAttributes(scope, 'Vpc', {
    vpcId,
    availabilityZones: [...availabilityZones],
    privateSubnetIds: [...privateSubnetIds],
    ...(hasTables ? { privateSubnetRouteTableIds: [...privateRouteTableIds] } : {}),
    ...(publicSubnetIds.length > 0 ? { publicSubnetIds: [...publicSubnetIds] } : {}),
  });
  if (hasTables) {
    const subnets = [{ subnetType: SubnetType.PRIVATE_WITH_EGRESS }];
    for (const [name, service] of Object.entries(GATEWAY_SERVICES)) vpc.addGatewayEndpoint(name, { service, subnets });
  }
  return vpc;
}
