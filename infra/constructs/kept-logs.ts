import { Aspects, RemovalPolicy, type Stack } from 'aws-cdk-lib';
import { CfnLogGroup } from 'aws-cdk-lib/aws-logs';

/** Has the logs of a stack outlast it: what went wrong is asked after what went wrong is gone. Their lines expire as before. */
export function keepLogs(stack: Stack): void {
  Aspects.of(stack).add({
    visit: (node) => {
      if (node instanceof CfnLogGroup) node.applyRemovalPolicy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE);
    },
  });
}
