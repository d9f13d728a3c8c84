import { Aspects, RemovalPolicy, type Stack } from 'aws-cdk-lib';
import { CfnLogGroup, type ILogGroup, LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

/**
 * Creates the log group of what runs in `scope`. It keeps lines for that number of days. It is deleted with the stack
 * unless `keepLogs` says otherwise.
 */
export function createLogGroup(scope: Construct, days: number, id = 'LogGroup'): ILogGroup {
  // Optional properties of the group are `T | undefined`.
  return new LogGroup(scope, id, { retention: days, removalPolicy: RemovalPolicy.DESTROY }) as ILogGroup;
}

/**
 * Has the logs of a stack outlast it: what went wrong is asked after what went wrong is gone. Their lines expire as
 * before.
 */
export function keepLogs(stack: Stack): void {
  Aspects.of(stack).add({
    visit: (node) => {
      if (node instanceof CfnLogGroup) node.applyRemovalPolicy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE);
    },
  });
}
