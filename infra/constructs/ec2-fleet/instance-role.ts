import { Aws } from 'aws-cdk-lib';
import { type IRole, ManagedPolicy, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import type { Ec2FleetSettings } from '../../settings/index.ts';
import { grantPull } from '../ecr-image.ts';
import { arnOfGroup } from './capacity-group.ts';

interface RoleProps {
  readonly fleet: Ec2FleetSettings;
  /** Names of the fleet's Auto Scaling groups. */
  readonly groups: readonly string[];
  readonly logGroup: ILogGroup;
}

/** End of the name of the folder beside the weights in which the first machine stores compiled kernels. */
const COMPILED = '.compile/';

/**
 * Creates the role of the fleet's machines, with the rights of their agent and engine. It has no right of EC2: what a
 * machine must know of itself, its metadata says.
 */
export function createInstanceRole(scope: Construct, { fleet, groups, logGroup }: RoleProps): IRole {
  const role = new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('ec2.amazonaws.com'),
    description: `Stator: machines of ${fleet.model}`.replaceAll(/[^\x20-\x7e]/g, '?'),
    ...(fleet.ssm ? { managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName('AmazonSSMManagedInstanceCore')] } : {}),
  });
  const allow = (actions: readonly string[], resources: readonly string[], conditions?: object) =>
    role.addToPolicy(
      new PolicyStatement({
        actions: [...actions],
        resources: [...resources],
        ...(conditions === undefined ? {} : { conditions: { ...conditions } }),
      }),
    );
  allow(
    [
      'autoscaling:CompleteLifecycleAction',
      'autoscaling:RecordLifecycleActionHeartbeat',
      'autoscaling:SetInstanceHealth',
    ],
    groups.map((name) => arnOfGroup(scope, name)),
  );
  allow(['logs:CreateLogStream', 'logs:PutLogEvents'], [logGroup.logGroupArn]);
  grantPull(role, [fleet.engine.image]);
  const { weights } = fleet;
  if (weights !== undefined) {
    const [, bucket = '', folder = ''] = /^s3:\/\/([^/]+)\/(.+)$/.exec(weights.uri) ?? [];
    const arn = `arn:${Aws.PARTITION}:s3:::${bucket}`;
    const compiled = `${folder.slice(0, -1)}${COMPILED}`;
    allow(['s3:GetObject'], [`${arn}/${folder}*`, `${arn}/${compiled}*`]);
    allow(['s3:PutObject'], [`${arn}/${compiled}*`]);
    allow(['s3:ListBucket'], [arn], { StringLike: { 's3:prefix': [`${folder}*`, `${compiled}*`] } });
    if (weights.keyArn !== undefined)
      allow(['kms:Decrypt', 'kms:GenerateDataKey'], [weights.keyArn], {
        StringEquals: { 'kms:ViaService': `s3.${Aws.REGION}.amazonaws.com` },
      });
  }
  return role;
}
