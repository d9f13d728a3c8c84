import { Aws } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { StringParameter } from 'aws-cdk-lib/aws-ssm';
import { AwsCustomResource, AwsCustomResourcePolicy, PhysicalResourceId } from 'aws-cdk-lib/custom-resources';
import type { Construct } from 'constructs';
import { createLogGroup } from '../log-groups.ts';

interface SeedProps {
  readonly parameter: string;
  /** Parameter that names the image to begin with. */
  readonly base: string;
  readonly logRetentionDays: number;
}

/**
 * Lets a parameter name the base until an image is built. It is written once: a parameter of the template would get the
 * base again with an update of the stack, once the base has changed.
 */
export function seedParameter(scope: Construct, { parameter, base, logRetentionDays }: SeedProps): void {
  new AwsCustomResource(scope, 'FirstImage', {
    onCreate: {
      service: 'ssm',
      action: 'PutParameter',
      parameters: {
        Name: parameter,
        Type: 'String',
        DataType: 'aws:ec2:image',
        Value: StringParameter.valueForStringParameter(scope, base),
        Overwrite: false,
      },
      physicalResourceId: PhysicalResourceId.of(parameter),
      ignoreErrorCodesMatching: 'ParameterAlreadyExists',
    },
    onDelete: {
      service: 'ssm',
      action: 'DeleteParameter',
      parameters: { Name: parameter },
      ignoreErrorCodesMatching: 'ParameterNotFound',
    },
    installLatestAwsSdk: false,
    memorySize: 128,
    logGroup: createLogGroup(scope, logRetentionDays, 'SetUpLogs'),
    policy: AwsCustomResourcePolicy.fromStatements([
      new PolicyStatement({
        actions: ['ssm:PutParameter', 'ssm:DeleteParameter'],
        resources: [`arn:${Aws.PARTITION}:ssm:${Aws.REGION}:${Aws.ACCOUNT_ID}:parameter${parameter}`],
      }),
      // Systems Manager looks the image up for a parameter of this type; the action knows no resource.
      new PolicyStatement({ actions: ['ec2:DescribeImages'], resources: ['*'] }),
    ]),
  });
}
