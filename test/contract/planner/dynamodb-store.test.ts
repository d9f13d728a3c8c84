import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DynamoDbPlannerStore } from '../../../shared/planner/index.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../../support/index.ts';
import { describePlannerStore } from './store.contract.ts';

const NEVER = new AbortController().signal;

describe.runIf(hasDynamoDb())('against a DynamoDB server', () => {
  const tableName = `planner-${process.pid}`;
  let server: DynamoDbServer;
  beforeAll(async () => {
    server = await startDynamoDb();
    await createTable({ tableName, endpoint: server.url });
  });
  afterAll(() => server?.stop());

  describePlannerStore('dynamodb', async () => {
    const open = () => DynamoDbPlannerStore.open({ tableName, endpoint: server.url });
    return [await open(), await open()];
  });

  it('names the table and the setting when the table does not exist', async () => {
    const store = await DynamoDbPlannerStore.open({ tableName: 'nowhere', endpoint: server.url });
    const failure = await store.readState('g', NEVER).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'misconfigured' });
    expect(String(failure)).toMatch(/planner table "nowhere".*STATOR_PLANNER_TABLE/);
  });

  it('fails in bounded time while no server answers', async () => {
    const endpoint = 'http://127.0.0.1:9';
    const store = await DynamoDbPlannerStore.open({ tableName, endpoint, operationTimeoutMs: 200 });
    const commit = store.commit('g', { version: 0, state: 's' }, NEVER);
    await expect(commit).rejects.toMatchObject({ code: 'unavailable' });
  });
});
