import { Aws } from 'aws-cdk-lib';
import type { SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import {
  CfnSecurityGroupIngress,
  type ISecurityGroup,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
} from 'aws-cdk-lib/aws-ec2';
import { CfnAccessEntry } from 'aws-cdk-lib/aws-eks-v2';
import { type IRole, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import type { Network } from '../network.ts';

/** Place of a function in a network. */
export interface FunctionPlace {
  readonly vpc: IVpc;
  readonly vpcSubnets: SubnetSelection;
  readonly securityGroups: ISecurityGroup[];
}

/** A cluster with workloads that a planner scales. */
interface PlannedCluster {
  readonly clusterName: string;
  /** Group of Kubernetes that has the rights of the planner. */
  readonly group: string;
}

/**
 * Lets a planner's role into a cluster, where it has the rights of its group and no others, and allows it to ask EKS
 * for the address of the cluster.
 */
export function admitPlanner(scope: Construct, { clusterName, group }: PlannedCluster, role: IRole): void {
  new CfnAccessEntry(scope, 'ClusterAccess', {
    clusterName,
    principalArn: role.roleArn,
    kubernetesGroups: [group],
  });
  role.addToPrincipalPolicy(
    new PolicyStatement({
      actions: ['eks:DescribeCluster'],
      resources: [`arn:${Aws.PARTITION}:eks:${Aws.REGION}:${Aws.ACCOUNT_ID}:cluster/${clusterName}`],
    }),
  );
}

/**
 * Returns a place within the network, from which a function reaches the API server of a cluster and AWS, and which
 * nothing reaches.
 * @param groupId security group of the cluster
 */
export function placeBesideCluster(scope: Construct, network: Network, groupId: string): FunctionPlace {
  const vpc = network.vpc as IVpc;
  const group = new SecurityGroup(scope, 'SecurityGroup', {
    vpc,
    description: 'Planner of Stator',
    allowAllOutbound: false,
  });
  group.addEgressRule(Peer.anyIpv4(), Port.tcp(443), 'API server of the cluster, and AWS');
  new CfnSecurityGroupIngress(scope, 'ToCluster', {
    groupId,
    sourceSecurityGroupId: group.securityGroupId,
    ipProtocol: 'tcp',
    fromPort: 443,
    toPort: 443,
    description: 'Planner of Stator',
  });
  return { vpc, vpcSubnets: network.functionSubnets, securityGroups: [group as ISecurityGroup] };
}
