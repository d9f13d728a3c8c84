import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DynamoDbKeyStore } from '../../../shared/access/keys/dynamodb-key-store.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../../support/index.ts';
import { describeKeyStore, someKey } from './key-store.contract.ts';

describe.runIf(hasDynamoDb())('against a DynamoDB server', () => {
  const tableName = `keys-${process.pid}`;
  let server: DynamoDbServer;
  beforeAll(async () => {
    server = await startDynamoDb();
    await createTable({ tableName, endpoint: server.url });
  });
  afterAll(() => server.stop());

  const open = () => DynamoDbKeyStore.open({ tableName, endpoint: server.url });

  describeKeyStore('dynamodb', async () => {
    const [writer, reader] = [await open(), await open()];
    return {
      writer,
      reader,
      close: async () => {
        writer.close();
        reader.close();
      },
    };
  });

  it('names the table and the setting when the table does not exist', async () => {
    const store = await DynamoDbKeyStore.open({ tableName: 'nowhere', endpoint: server.url });
    const failure = await store.get(someKey().id).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'misconfigured' });
    expect(String(failure)).toMatch(/keys table "nowhere".*STATOR_KEYS_TABLE/);
  });

  it('fails in bounded time while no server answers', async () => {
    const store = await DynamoDbKeyStore.open({ tableName, endpoint: 'http://127.0.0.1:9', operationTimeoutMs: 200 });
    await expect(store.get(someKey().id)).rejects.toMatchObject({ code: 'unavailable' });
  });
});
