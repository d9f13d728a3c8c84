import { describeDynamoDb } from './dynamodb.contract.ts';

describeDynamoDb();
