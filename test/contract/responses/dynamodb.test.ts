import { DeleteTableCommand, DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../../shared/clock/index.ts';
import { DynamoDbResponseStore } from '../../../shared/responses/index.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../../support/index.ts';
import { describeResponseStore, recordClock, someResponse, TTL_MS } from './response-store.contract.ts';

describe.runIf(hasDynamoDb())('against a DynamoDB server', () => {
  const TableName = `responses-${process.pid}`;
  let server: DynamoDbServer;
  let client: DynamoDBClient;

  beforeAll(async () => {
    server = await startDynamoDb();
    client = new DynamoDBClient({ endpoint: server.url, region: 'us-east-1' });
    await createTable({ tableName: TableName, endpoint: server.url });
  });
  afterAll(async () => {
    await client.send(new DeleteTableCommand({ TableName }));
    client.destroy();
    await server.stop();
  });

  /** Records age by a virtual clock; deadlines run on the machine's. */
  async function openStore() {
    const { clock: ageing, age } = recordClock();
    const clock = { ...systemClock, wallMs: () => ageing.wallMs() };
    const options = { tableName: TableName, endpoint: server.url, clock, random: systemRandom, ttlMs: TTL_MS };
    const store = await DynamoDbResponseStore.open(options);
    return { store, age, close: async () => store.close() };
  }

  describeResponseStore('dynamodb', openStore);

  it('leaves no item of a deleted response in the table', async () => {
    const { store } = await openStore();
    const text = Array.from({ length: 40_000 }, () => systemRandom.uuid()).join('');
    const record = someResponse({ response: { text } });
    await store.put(record);
    const items = async () => {
      const page = await client.send(new ScanCommand({ TableName, ProjectionExpression: 'pk, sk' }));
      return page.Items?.filter((item) => item.pk?.S === record.id).length;
    };
    expect(await items()).toBeGreaterThan(1);
    await store.delete(record.id, '');
    expect(await items()).toBe(0);
    store.close();
  });

  it('tells in one line which table it cannot reach and what to do', async () => {
    const options = { tableName: 'nowhere', endpoint: server.url, clock: systemClock, random: systemRandom, ttlMs: 1 };
    const store = await DynamoDbResponseStore.open(options);
    await expect(store.get('resp_1', '')).rejects.toMatchObject({
      code: 'misconfigured',
      message: expect.stringMatching(/"nowhere".*STATOR_RESPONSES_TABLE/),
    });
    store.close();
  });
});
