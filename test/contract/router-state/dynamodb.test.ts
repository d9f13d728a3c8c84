import { DeleteTableCommand, DynamoDBClient, ScanCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../../shared/clock/index.ts';
import {
  CounterSweep,
  createRouterStateTable,
  DynamoDbRouterState,
  type RouterState,
} from '../../../shared/router/state/index.ts';
import { type DynamoDbServer, hasDynamoDb, startDynamoDb, waitUntil } from '../../support/index.ts';
import { type LosingProxy, startLosingProxy } from './losing-proxy.ts';
import { amounts, describeRouterState, type StateUnderTest, someReport } from './router-state.contract.ts';

const never = new AbortController().signal;
const pool = { namespace: 'ns', component: 'backend', endpoint: 'generate' };

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
    await createRouterStateTable({ tableName, endpoint: server.url });
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

  it('has the counters of a dead worker swept, and no others', async () => {
    const under = await start();
    const [state, sweeping] = await Promise.all([under.open(), under.open()]);
    const [live, dead] = ['a', 'b'].map((workerId) => ({ workerId, dpRank: 0 }));
    if (live === undefined || dead === undefined) throw new Error('two workers');
    await state.report(pool, someReport(1, { rank: dead, active: amounts(3) }), never);
    const problems: unknown[] = [];
    const sweep = new CounterSweep({
      ...{ state: sweeping, pool, lease: { fence: 1 }, clock: systemClock, random: systemRandom },
      silentMsMax: 1000, // of production's minute
      onProblem: (problem) => problems.push(problem),
    });
    sweep.start();
    let number = 0;
    await waitUntil(
      async () => {
        await state.report(pool, someReport(++number, { rank: live, active: amounts(1) }), never);
        return (await state.loads(pool, never)).length === 1;
      },
      { what: 'one worker in the table' },
    );
    await sweep.stop();
    expect(await state.loads(pool, never)).toMatchObject([{ rank: live, active: amounts(1) }]);
    expect(problems).toEqual([]);
    await under.close();
  });

  it('repeats what the table refuses for want of capacity', async () => {
    const under = await start();
    const state = await under.open();
    await state.report(pool, someReport(1), never);
    under.proxy.throttle(0.5);
    const { rank } = someReport(1);
    for (let number = 1; number <= 10; number++) {
      await state.reserve(pool, { rank, amounts: amounts(1), deciderId: 'ab', number }, never);
    }
    under.proxy.throttle(0);
    expect(await state.report(pool, someReport(2), never)).toEqual(amounts(10));
    await under.close();
  });

  it('writes in the table’s time, though its own clock is a minute slow', async () => {
    const under = await start();
    const state = await under.open();
    await state.fleetReads(pool, never);
    await state.report(pool, someReport(1), never);
    const [row] = await state.loads(pool, never);
    expect(Math.abs((row?.reportedAtMs ?? 0) - systemClock.wallMs())).toBeLessThan(5000);
    await under.close();
  });

  it('keeps a counter far below the size of one write unit, whoever decides', async () => {
    const under = await start();
    const state = await under.open();
    const { rank } = someReport(1);
    await state.report(pool, someReport(1, { active: amounts(1e9), acked: amounts(1e9) }), never);
    for (let decider = 0; decider < 40; decider++) {
      const deciderId = (2 ** 52 + decider).toString(16);
      await state.reserve(pool, { rank, amounts: amounts(1e6), deciderId, number: 1e9 }, never);
    }
    const page = await client.send(new ScanCommand({ TableName: under.tableName }));
    expect(JSON.stringify(page.Items?.[0]).length).toBeLessThan(1024 * 1.2); // the type marks are not counted
    await under.close();
  });

  it('says in one line which table it cannot use and what to do', async () => {
    const state = await DynamoDbRouterState.open({ tableName: 'nowhere', endpoint: server.url });
    await expect(state.loads(pool, never)).rejects.toMatchObject({
      code: 'misconfigured',
      message: expect.stringMatching(/router-state table "nowhere".*STATOR_STATE_TABLE/),
    });
    state.close();
  });
});
