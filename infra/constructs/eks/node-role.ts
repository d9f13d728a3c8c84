import { CfnAccessEntry } from 'aws-cdk-lib/aws-eks-v2';
import { type IRole, ManagedPolicy, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

/** Policies of nodes in Auto Mode ("Amazon EKS Auto Mode node IAM role"). */
const NODE_POLICIES = ['AmazonEKSWorkerNodeMinimalPolicy', 'AmazonEC2ContainerRegistryPullOnly'];

/** Creates the role of nodes in Auto Mode. Pods have roles of their own. */
export function createNodeRole(scope: Construct): IRole {
  return new Role(scope, 'NodeRole', {
    assumedBy: new ServicePrincipal('ec2.amazonaws.com'),
    description: 'Stator: nodes of EKS',
    managedPolicies: NODE_POLICIES.map((name) => ManagedPolicy.fromAwsManagedPolicyName(name)),
  });
}

/** Lets nodes with a role join a cluster, whose own node pools have another role ("Create node class access entry"). */
export function admitNodes(scope: Construct, clusterName: string, { roleArn }: IRole): void {
  new CfnAccessEntry(scope, 'NodeAccess', {
    clusterName,
    principalArn: roleArn,
    type: 'EC2',
    accessPolicies: [
      {
        policyArn: 'arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy',
        accessScope: { type: 'cluster' },
      },
    ],
  });
}

/** Gives a role or user all rights in a cluster. */
export function admitAdmin(scope: Construct, id: string, clusterName: string, principalArn: string): CfnAccessEntry {
  return new CfnAccessEntry(scope, id, {
    clusterName,
    principalArn,
    accessPolicies: [
      {
        policyArn: 'arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy',
        accessScope: { type: 'cluster' },
      },
    ],
  });
}
