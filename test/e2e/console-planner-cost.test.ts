import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OpenOnce } from '../../shared/concurrency/index.ts';
import { PlannerViewers } from '../../shared/console/index.ts';
import { handleSignals } from '../../shared/planner/decide/handle-batch.ts';
import { DynamoDbPlannerStore } from '../../shared/planner/index.ts';
import { type CountingTableProxy, startCountingTableProxy } from '../support/counting-table-proxy.ts';
import { createTable, type DynamoDbServer, hasDynamoDb, startDynamoDb, waitUntil } from '../support/index.ts';
import { BEGIN_S } from '../support/planner/fleet-signals.ts';
import { aggregatedAt, plannerOf } from '../support/planner/planned-model.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const NEVER = new AbortController().signal;
const MINUTES = 20;
const tableName = 'plans';

describe.runIf(hasDynamoDb())('viewers of a planner whose records are in a table', () => {
  let server: DynamoDbServer;
  let tables: CountingTableProxy;

  beforeAll(async () => {
    server = await startDynamoDb();
    await createTable({ tableName, endpoint: server.url });
    tables = await startCountingTableProxy(server.url);
    const store = await DynamoDbPlannerStore.open({ tableName, endpoint: server.url });
    const planner = plannerOf();
    for (let atS = 0; atS <= 60 * MINUTES; atS += 5) {
      const rate = 20 + 20 * Math.floor(atS / 120); // a decision every two minutes
      const message = aggregatedAt(atS, atS / 5, { workers: 8, perInstance: 8, rate });
      await handleSignals([message], { store, group: 'ns#m', planner }, NEVER);
    }
    await store.close();
  }, 120_000);
  afterAll(async () => {
    await tables?.close();
    await server?.stop();
  });

  it('make four reads every five seconds, all of them together, and no write', async () => {
    const clock = new VirtualClock(1000 * (BEGIN_S + 60 * MINUTES + 1));
    const records = new OpenOnce(() => DynamoDbPlannerStore.open({ tableName, endpoint: tables.url }));
    const viewers = new PlannerViewers(clock, '', records);
    const events: string[] = [];
    const sink = { send: (text: string) => void events.push(text), isBehind: () => false, breakOff: () => {} };
    const leave = [viewers.add('m', sink), viewers.add('m', sink)];
    await waitUntil(() => events.length === 2, { what: 'the whole view for both viewers' });
    expect(events[0]).toMatch(/^event: planner\n.*"outcome":"waiting"/s);
    const first = tables.take();
    expect(first.writeRequests).toBe(0);
    await clock.advance(5000);
    await waitUntil(() => events.length === 4, { what: 'the change for both viewers' });
    const next = tables.take();
    expect(next).toMatchObject({ readRequests: 4, writeRequests: 0 });
    expect(next.readUnits).toBeLessThanOrEqual(6);
    for (const each of leave) each();
    await clock.advance(60_000);
    expect(tables.take().readRequests).toBe(0);
    viewers.close();
    await records.close();
  });
});
