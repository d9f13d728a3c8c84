import { Aws } from 'aws-cdk-lib';
import { type IRole, ManagedPolicy, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { grantPull } from '../ecr-image.ts';

interface BuilderProps {
  /** Images of workers that the machine pulls. */
  readonly images: readonly string[];
  /** Pattern of the names of its components, in lower case as ARNs have them. */
  readonly componentNames: string;
  /** Name of the log group of its builds. */
  readonly logGroupName: string;
}

/**
 * Creates the role of the machines that build and test an image. Image Builder drives them by Systems Manager, for
 * which AWS requires its managed policy ("Image Builder prerequisites"). The other rights are those of the policy
 * `EC2InstanceProfileForImageBuilder` that such a build uses, for its own component and its own log only.
 */
export function createBuilderRole(scope: Construct, { images, componentNames, logGroupName }: BuilderProps): IRole {
  const role = new Role(scope, 'BuilderRole', {
    assumedBy: new ServicePrincipal('ec2.amazonaws.com'),
    description: 'Stator: machines that build an image for machines',
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName('AmazonSSMManagedInstanceCore')],
  });
  const allow = (actions: readonly string[], resources: readonly string[]) =>
    role.addToPolicy(new PolicyStatement({ actions: [...actions], resources: [...resources] }));
  const own = (service: string) => `arn:${Aws.PARTITION}:${service}:${Aws.REGION}:${Aws.ACCOUNT_ID}`;
  allow(['imagebuilder:GetComponent'], [`${own('imagebuilder')}:component/${componentNames}/*`]);
  // The program that runs components, in buckets of Image Builder.
  allow(['s3:GetObject'], [`arn:${Aws.PARTITION}:s3:::ec2imagebuilder*`]);
  allow(['logs:CreateLogStream', 'logs:PutLogEvents'], [`${own('logs')}:log-group:${logGroupName}:*`]);
  grantPull(role, images);
  return role;
}
