import { Aws, CfnOutput, type Stack } from 'aws-cdk-lib';
import type { ICluster } from 'aws-cdk-lib/aws-ecs';
import { ManagedPolicy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { type FleetSecrets, NATS_ROLES } from './fleet-secrets.ts';

/**
 * Adds the command that rotates the secrets of a fleet, and the policy of operators who may run it. Operators who make
 * keys do not need it.
 */
export function describeRotation(stack: Stack, secrets: FleetSecrets, cluster: ICluster): void {
  const policy = new ManagedPolicy(stack, 'RotatorPolicy', { description: 'Stator: what stator secrets rotate needs' });
  const all = [secrets.planeToken, secrets.idSecret, ...NATS_ROLES.map((role) => secrets.natsUser(role))];
  for (const secret of all) {
    secret.grantRead(policy);
    secret.grantWrite(policy);
  }
  const ofCluster = { ArnEquals: { 'ecs:cluster': cluster.clusterArn } };
  policy.addStatements(
    // This action takes no narrower resource.
    new PolicyStatement({ actions: ['ecs:ListServices'], resources: ['*'], conditions: ofCluster }),
    new PolicyStatement({
      actions: ['ecs:DescribeServices', 'ecs:UpdateService'],
      // All services of the cluster, because later stacks create those of fleets.
      resources: [`arn:${Aws.PARTITION}:ecs:${Aws.REGION}:${Aws.ACCOUNT_ID}:service/${cluster.clusterName}/*`],
    }),
  );
  const nats = NATS_ROLES.map((role) => `--nats ${secrets.natsUser(role).secretArn}`).join(' ');
  const named = `--plane-token ${secrets.planeToken.secretArn} --id-secret ${secrets.idSecret.secretArn} ${nats}`;
  new CfnOutput(stack, 'RotateSecretsCommand', {
    value: `AWS_REGION=${Aws.REGION} npx stator secrets rotate --cluster ${cluster.clusterName} ${named}`,
    description: 'Rotates the secrets of the fleet, and restarts the services that have them',
  });
  new CfnOutput(stack, 'RotatorPolicyArn', {
    value: policy.managedPolicyArn,
    description: 'Policy for operators who run stator secrets',
  });
}
