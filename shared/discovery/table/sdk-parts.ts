/**
 * The parts of the SDK that this product uses, and nothing else of it: imported as a whole, lazily, the SDK would bring
 * every command along.
 */
export {
  BatchGetItemCommand,
  DeleteItemCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  ScanCommand,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
