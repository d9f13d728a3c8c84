import { Aws } from 'aws-cdk-lib';
import { CfnPodIdentityAssociation } from 'aws-cdk-lib/aws-eks-v2';
import { type IRole, PolicyStatement, Role, ServicePrincipal, SessionTagsPrincipal } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import type { EksFleetSettings } from '../../settings/index.ts';

interface PodRoleProps {
  readonly fleet: Pick<EksFleetSettings, 'model' | 'weights'>;
  readonly clusterName: string;
  readonly namespace: string;
  readonly serviceAccount: string;
}

interface PodRole {
  readonly role: IRole;
  readonly association: CfnPodIdentityAssociation;
}

/**
 * Creates the role of a fleet's pods, which the agent of EKS Pod Identity hands to those of its service account in its
 * cluster only.
 */
export function createPodRole(scope: Construct, props: PodRoleProps): PodRole {
  const { fleet, clusterName, namespace, serviceAccount } = props;
  const clusterArn = `arn:${Aws.PARTITION}:eks:${Aws.REGION}:${Aws.ACCOUNT_ID}:cluster/${clusterName}`;
  const principal = new ServicePrincipal('pods.eks.amazonaws.com', {
    conditions: {
      StringEquals: {
        'aws:RequestTag/eks-cluster-arn': clusterArn,
        'aws:RequestTag/kubernetes-namespace': namespace,
        'aws:RequestTag/kubernetes-service-account': serviceAccount,
      },
    },
  });
  const role = new Role(scope, 'Role', {
    assumedBy: new SessionTagsPrincipal(principal),
    description: `Stator: pods of ${fleet.model}`.replaceAll(/[^\x20-\x7e]/g, '?'),
  });
  allowWeights(role, fleet);
  const association = new CfnPodIdentityAssociation(scope, 'Identity', {
    clusterName,
    namespace,
    serviceAccount,
    roleArn: role.roleArn,
  });
  return { role, association };
}

/** Allows the engine to read the folder of its weights. */
function allowWeights(role: IRole, { weights }: PodRoleProps['fleet']): void {
  if (weights === undefined) return;
  const [, bucket = '', folder = ''] = /^s3:\/\/([^/]+)\/(.+)$/.exec(weights.uri) ?? [];
  const arn = `arn:${Aws.PARTITION}:s3:::${bucket}`;
  const allow = (action: string, resource: string, conditions?: Record<string, unknown>) =>
    role.addToPrincipalPolicy(
      new PolicyStatement({
        actions: [action],
        resources: [resource],
        ...(conditions === undefined ? {} : { conditions }),
      }),
    );
  allow('s3:GetObject', `${arn}/${folder}*`);
  allow('s3:ListBucket', arn, { StringLike: { 's3:prefix': [`${folder}*`] } });
  if (weights.keyArn === undefined) return;
  allow('kms:Decrypt', weights.keyArn, { StringEquals: { 'kms:ViaService': `s3.${Aws.REGION}.amazonaws.com` } });
}
