import { Aws, CfnOutput, type Stack } from 'aws-cdk-lib';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { FleetStore } from '../constructs/fleet-store.ts';
import type { PublicFront } from '../constructs/public-front.ts';

/** Adds what a user needs to know after the deployment, in the order in which it is needed. */
export function describeFront(stack: Stack, store: FleetStore, front: PublicFront): void {
  const operator = new ManagedPolicy(stack, 'OperatorPolicy', {
    description: 'Stator: what stator keys and artifacts need',
  });
  store.grantOperate(operator);
  const output = (id: string, value: string, description: string) => new CfnOutput(stack, id, { value, description });
  output('BaseUrl', front.baseUrl, 'Base URL for OpenAI clients; Anthropic clients take it without /v1');
  const place = `AWS_REGION=${Aws.REGION} STATOR_KEYS_TABLE=${store.keys.tableName}`;
  output('CreateKeyCommand', `${place} npx stator keys create --name first`, 'Makes the first API key');
  output('KeysTableName', store.keys.tableName, 'STATOR_KEYS_TABLE of stator keys');
  output('OperatorPolicyArn', operator.managedPolicyArn, 'Policy for whoever runs stator keys and stator artifacts');
  output('ArtifactsBucketName', store.artifacts.bucketName, 'Bucket for stator artifacts push');
  output('DiscoveryTableName', store.discovery.tableName, 'STATOR_DISCOVERY_TABLE of workers and edges');
  output('RouterStateTableName', store.routerState.tableName, 'STATOR_STATE_TABLE of container edges');
  if (front.name !== undefined) output('PublicTarget', front.name.target, 'What the name of the API points at');
  if (front.url !== undefined) output('FunctionUrl', front.url.url, 'For callers that sign with SigV4');
}
