import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../shared/clock/index.ts';
import { DynamoDbHeldNotes } from '../../../shared/planner/index.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../../support/index.ts';
import { describeHeldNotes } from './held-notes.contract.ts';

const NEVER = new AbortController().signal;
const NOTE = { namespace: 'dynamo', model: 'm', count: 1, oldestAtMs: 1_800_000_000_000 };

describe.runIf(hasDynamoDb())('against a DynamoDB server', () => {
  const tableName = `held-${process.pid}`;
  let server: DynamoDbServer;
  beforeAll(async () => {
    server = await startDynamoDb();
    await createTable({ tableName, endpoint: server.url });
  });
  afterAll(() => server?.stop());

  describeHeldNotes('dynamodb', async () => {
    let aheadMs = 0;
    const clock: Clock = {
      nowMs: () => systemClock.nowMs(),
      wallMs: () => systemClock.wallMs() + aheadMs,
      after: (ms, callback) => systemClock.after(ms, callback),
      every: (ms, callback) => systemClock.every(ms, callback),
      sleep: (ms, signal) => systemClock.sleep(ms, signal),
    };
    const open = () => DynamoDbHeldNotes.open({ tableName, endpoint: server.url, clock });
    const passed = async (ms: number) => {
      aheadMs += ms;
    };
    return { writer: await open(), reader: await open(), passed };
  });

  it('names the table and the setting when the table does not exist', async () => {
    const notes = await DynamoDbHeldNotes.open({ tableName: 'nowhere', endpoint: server.url });
    const failure = await notes.put('one', NOTE, NEVER).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'misconfigured' });
    expect(String(failure)).toMatch(/planner table "nowhere".*STATOR_PLANNER_TABLE/);
  });

  it('fails in bounded time while no server answers', async () => {
    const notes = await DynamoDbHeldNotes.open({ tableName, endpoint: 'http://127.0.0.1:9', operationTimeoutMs: 200 });
    await expect(notes.put('one', NOTE, NEVER)).rejects.toMatchObject({ code: 'unavailable' });
  });
});
