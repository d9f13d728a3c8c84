import { type IRole, PolicyStatement } from 'aws-cdk-lib/aws-iam';

/** Name of the cluster, which EKS puts on its role for the time of a call. */
const CLUSTER = `\${aws:PrincipalTag/eks:eks-cluster-name}`;

/**
 * Allows a cluster with Auto Mode to set tags of the user's on what it creates for a node ("Custom AWS tags for EKS
 * Auto resources"). The policies of AWS allow only the tags of EKS itself.
 */
export function allowTags(role: IRole): void {
  const ofCluster = { 'aws:RequestTag/eks:eks-cluster-name': CLUSTER };
  const named = (tag: string) => ({ [`aws:RequestTag/eks:${tag}`]: '*' });
  role.addToPrincipalPolicy(
    new PolicyStatement({
      actions: ['ec2:CreateFleet', 'ec2:CreateLaunchTemplate', 'ec2:RunInstances'],
      resources: ['*'],
      conditions: {
        StringEquals: ofCluster,
        StringLike: { ...named('kubernetes-node-class-name'), ...named('kubernetes-node-pool-name') },
      },
    }),
  );
  role.addToPrincipalPolicy(
    new PolicyStatement({
      actions: ['ec2:CreateNetworkInterface'],
      resources: ['*'],
      conditions: { StringEquals: ofCluster, StringLike: named('kubernetes-cni-node-name') },
    }),
  );
}
