import { DeleteTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { DynamoDbRouterState, type RouterState } from '../../../shared/router-state/index.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../../support/index.ts';
import { type LosingProxy, startLosingProxy } from './losing-proxy.ts';
import { describeRouterState, type StateUnderTest } from './router-state.contract.ts';

const never = new AbortController().signal;
const name = { namespace: 'ns', name: 'index/backend' };

describe.runIf(hasDynamoDb())('against a DynamoDB server', () => {
  let server: DynamoDbServer;
  let client: DynamoDBClient;
  let tableCount = 0;

  beforeAll(async () => {
    server = await startDynamoDb();
    client = new DynamoDBClient({ endpoint: server.url, region: 'us-east-1' });
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });

  async function start(): Promise<StateUnderTest & { readonly tableName: string; readonly proxy: LosingProxy }> {
    const tableName = `router-state-${process.pid}-${tableCount++}`;
    await createTable({ tableName, endpoint: server.url });
    const proxy = await startLosingProxy(server.url);
    const opened: RouterState[] = [];
    return {
      tableName,
      proxy,
      loseAnswers: (share) => proxy.lose(share),
      async open() {
        const clock = { ...systemClock, wallMs: () => systemClock.wallMs() - 60_000 }; // a minute slow
        const state = await DynamoDbRouterState.open({
          tableName,
          endpoint: proxy.url,
          clock,
          operationTimeoutMs: 10_000,
        });
        opened.push(state);
        return state;
      },
      async close() {
        for (const state of opened) state.close();
        await proxy.close();
        await client.send(new DeleteTableCommand({ TableName: tableName }));
      },
    };
  }

  describeRouterState('dynamodb', start);

  it('repeats what the table refuses for want of capacity', async () => {
    const under = await start();
    const state = await under.open();
    under.proxy.throttle(0.5);
    for (let sequence = 1; sequence <= 10; sequence++) {
      const seen = await state.readPointer(name, never);
      const to = { createdAt: '2026', sequence, object: `o${sequence}` };
      await state.movePointer(name, { to, fence: 1, seen }, never);
    }
    under.proxy.throttle(0);
    expect(await state.readPointer(name, never)).toMatchObject({ sequence: 10, version: 10 });
    await under.close();
  });

  it('writes in the table’s time, though its own clock is a minute slow', async () => {
    const under = await start();
    const state = await under.open();
    await state.readPointer(name, never); // the first answer tells the time
    const row = await state.takeLease(name, { holder: 'a', ttlMs: 10_000, seenFence: undefined }, never);
    expect(Math.abs((row?.expiresAtMs ?? 0) - 10_000 - systemClock.wallMs())).toBeLessThan(5000);
    await under.close();
  });

  it('says in one line which table it cannot use and what to do', async () => {
    const state = await DynamoDbRouterState.open({ tableName: 'nowhere', endpoint: server.url });
    await expect(state.readPointer(name, never)).rejects.toMatchObject({
      code: 'misconfigured',
      message: expect.stringMatching(/router-state table "nowhere".*STATOR_STATE_TABLE/),
    });
    state.close();
  });
});
