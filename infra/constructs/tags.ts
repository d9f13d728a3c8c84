import { type Stack, Tags } from 'aws-cdk-lib';

/** Tag that tells the cost of a deployment from others: its name. */
export const DEPLOYMENT_TAG = 'stator:deployment';

/** Puts on everything in `stack` which deployment, which stack of it and which shape of one it is of. */
export function tagCosts(stack: Stack, deployment: string, environment: 'dev' | 'production'): void {
  const tags = Tags.of(stack);
  tags.add(DEPLOYMENT_TAG, deployment);
  tags.add('stator:stack', stack.stackName);
  tags.add('stator:env', environment);
}
