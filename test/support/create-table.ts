import { CreateTableCommand, DynamoDBClient, waitUntilTableExists } from '@aws-sdk/client-dynamodb';

/** Keys of every table of this product, and the attribute (Unix seconds) after which DynamoDB deletes an item. */
export const TABLE_SCHEMA = { partitionKey: 'pk', sortKey: 'sk', ttlAttribute: 'ttl' } as const;

interface NewTable {
  readonly tableName: string;
  readonly endpoint: string;
}

/** Creates an empty table of `TABLE_SCHEMA` on a server of the tests. Resolves when the table is usable. */
export async function createTable({ tableName: TableName, endpoint }: NewTable): Promise<void> {
  const client = new DynamoDBClient({ endpoint, region: 'us-east-1' });
  const { partitionKey, sortKey } = TABLE_SCHEMA;
  try {
    await client.send(
      new CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [
          { AttributeName: partitionKey, AttributeType: 'S' },
          { AttributeName: sortKey, AttributeType: 'S' },
        ],
        KeySchema: [
          { AttributeName: partitionKey, KeyType: 'HASH' },
          { AttributeName: sortKey, KeyType: 'RANGE' },
        ],
      }),
    );
    await waitUntilTableExists({ client, maxWaitTime: 60, minDelay: 1 }, { TableName });
  } finally {
    client.destroy();
  }
}
