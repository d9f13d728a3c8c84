import { Effect, type IManagedPolicy, type IRole, ManagedPolicy, Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

/** Returns the policy by which Lambda attaches a function to a network. */
export function attachmentPolicy(): IManagedPolicy {
  return ManagedPolicy.fromAwsManagedPolicyName('service-role/AWSLambdaENIManagementAccess');
}

/** Rights that Lambda needs over network interfaces for a function, as the managed policy of AWS lists them. */
const INTERFACES = [
  'CreateNetworkInterface',
  'DescribeNetworkInterfaces',
  'DeleteNetworkInterface',
  'AssignPrivateIpAddresses',
  'UnassignPrivateIpAddresses',
].map((action) => `ec2:${action}`);

/** Denies the function's own code the rights over network interfaces, which only Lambda itself needs. */
export function denyInterfaces(scope: Construct, role: IRole, functionArn: string): void {
  const own = new PolicyStatement({
    effect: Effect.DENY,
    actions: INTERFACES,
    resources: ['*'],
    conditions: { ArnEquals: { 'lambda:SourceFunctionArn': functionArn } },
  });
  // A policy of its own: the role's other one is there before the function, which this one names.
  new Policy(scope, 'Interfaces', { roles: [role], statements: [own] });
}
