import { describeDynamoDb } from './dynamodb.contract.ts';

// As in a Lambda function, whose tables are asked without AWS's SDK.
describeDynamoDb({
  AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x',
  AWS_ACCESS_KEY_ID: 'local',
  AWS_SECRET_ACCESS_KEY: 'local',
  AWS_REGION: 'us-east-1',
});
