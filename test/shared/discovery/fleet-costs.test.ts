import { setMaxListeners } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../shared/clock/index.ts';
import { inBatches } from '../../../shared/concurrency/index.ts';
import { CardWriter, ownCardOf } from '../../../shared/discovery/dynamodb/catalogue.ts';
import { DynamoDbDiscovery } from '../../../shared/discovery/dynamodb/dynamodb-discovery.ts';
import { LeaseWriter } from '../../../shared/discovery/dynamodb/lease-writer.ts';
import { discoveryTablePlace } from '../../../shared/discovery/dynamodb/schema.ts';
import { Table, TableTime } from '../../../shared/discovery/index.ts';
import { addressOf } from '../../../shared/discovery/keys.ts';
import { Witness } from '../../contract/discovery/records.ts';
import { createTestTable, type TestTable } from '../../contract/discovery/test-table.ts';
import { startCountingTableProxy, type TableUse } from '../../support/counting-table-proxy.ts';
import { type DynamoDbServer, hasDynamoDb, startDynamoDb, waitUntil } from '../../support/index.ts';
import { makeUpFleet, packedLoad, packedRecord, recordsOfWorker } from '../../support/made-up-fleet.ts';

const { signal } = new AbortController();
setMaxListeners(0, signal); // for the parallel calls of many workers
const LEASE_MS = 300_000;
const instances = { bucket: 'v1/instances', prefix: '' } as const;

/** Costs of reading the fleet, counted before a real server. The page docs/router-state.md prices these counts. */
describe.runIf(hasDynamoDb())('what the fleet costs', { timeout: 60_000 }, () => {
  let server: DynamoDbServer;
  let table: TestTable;
  beforeAll(async () => {
    server = await startDynamoDb();
  });
  beforeEach(async () => {
    table = await createTestTable(server.url); // no leases of the test before
  });
  afterEach(() => table.drop());
  afterAll(() => server.stop());

  const random = seededRandom(5);
  async function openTable(endpoint = server.url): Promise<{ readonly table: Table; readonly time: TableTime }> {
    const time = new TableTime(systemClock);
    const place = discoveryTablePlace({ tableName: table.tableName, endpoint });
    return { table: await Table.open(place, { clock: systemClock, random, time, requestTimeoutMs: 10_000 }), time };
  }

  /** Workers that write their rows as `DynamoDbDiscovery` does. */
  async function register(count: number): Promise<{ readonly ids: readonly string[]; close(): void }> {
    const opened = await openTable();
    const ids = Array.from({ length: count }, () => random.instanceId());
    const cards = new CardWriter(opened.table, opened.time, systemClock);
    await inBatches([...ids.entries()], async ([at, id]) => {
      const lease = {
        ...opened,
        clock: systemClock,
        leaseId: id,
        ttlMs: LEASE_MS,
        load: () => packedLoad(id, at % 50),
      };
      const writer = new LeaseWriter(lease);
      await writer.ensureLease(signal);
      for (const record of recordsOfWorker(id, at)) {
        if (record.type === 'Model') await cards.ensureCard(ownCardOf(record), signal);
        await writer.writeRecord({ address: addressOf(record), instanceId: id, bytes: packedRecord(record) }, signal);
      }
      await writer.tellChange(signal);
    });
    return { ids, close: () => opened.table.close() };
  }

  async function openReader(url: string, isLasting: boolean, pollMs: number) {
    const { tableName } = table;
    let rounds = 0;
    const observer = { read: () => void rounds++, gathering() {} };
    const options = {
      tableName,
      endpoint: url,
      isLasting,
      pollMs,
      observer,
      requestTimeoutMs: 10_000,
      onProblem() {},
      staleMsMax: 0,
    };
    const discovery = await DynamoDbDiscovery.open({
      ...options,
      refreshTimeoutMs: 10_000,
      operationTimeoutMs: 20_000,
    });
    return { discovery, rounds: () => rounds };
  }

  it('of 1,000 idle workers is at most 15 read units a second for all readers together', async () => {
    const proxy = await startCountingTableProxy(server.url);
    const workers = await register(1000);
    const { discovery, rounds } = await openReader(proxy.url, true, 20); // a second is a reading
    const witness = new Witness();
    await discovery.watch(instances, witness);
    expect(witness.present.size).toBe(4000);
    await waitUntil(() => rounds() > 5);
    const reader = await startCountingTableProxy(server.url);
    const other = await openReader(reader.url, true, 20);
    await other.discovery.watch(instances, new Witness());
    await waitUntil(() => other.rounds() > 3);
    const [first, firstOfOther] = [rounds(), other.rounds()];
    proxy.take();
    reader.take();
    await waitUntil(() => rounds() >= first + 20 && other.rounds() >= firstOfOther + 20);
    const seconds = rounds() - first;
    const { readUnits, writeUnits } = proxy.take();
    expect(readUnits / seconds).toBeLessThanOrEqual(15);
    expect(readUnits / seconds).toBeGreaterThan(4); // it does read
    expect(writeUnits / seconds).toBeLessThanOrEqual(2); // the head
    const ofOther = reader.take();
    expect(ofOther.readUnits / (other.rounds() - firstOfOther)).toBeLessThanOrEqual(1.1); // the head alone
    expect(ofOther.writeUnits).toBe(0);
    await Promise.all([discovery.close(), other.discovery.close()]);
    await Promise.all([proxy.close(), reader.close()]);
    workers.close();
  });

  it.each([
    [10, 1.5],
    [1000, 10],
    [10_000, 8],
  ])(
    'of %d busy workers is at most two reads and no write for a request of a warm function',
    async (count, unitsMax) => {
      const proxy = await startCountingTableProxy(server.url);
      const fleet = await makeUpFleet({ tableName: table.tableName, endpoint: server.url }, { count, models: 1 });
      const { discovery } = await openReader(proxy.url, false, 1000);
      const witness = new Witness();
      await discovery.watch(instances, witness);
      expect(witness.present.size).toBe(4 * count);
      let known = 0;
      discovery.watchLoads((loads) => {
        known = loads.size;
      });
      const uses: TableUse[] = [];
      for (let request = 1; request <= 5; request++) {
        await fleet.change(); // every load has changed, and a worker has come or gone
        proxy.take();
        await discovery.refresh(1, undefined, 'a conversation');
        uses.push(proxy.take());
      }
      for (const use of uses) {
        expect(use.readRequests).toBeLessThanOrEqual(2);
        expect(use.writeRequests).toBe(0);
        expect(use.readUnits).toBeLessThanOrEqual(unitsMax);
      }
      expect(known).toBeGreaterThanOrEqual(count > 2000 ? 50 : count);
      await discovery.close();
      await fleet.close();
      await proxy.close();
    },
  );

  /** Reads at a cold start, for its first request, and for later ones, each a second after the one before. */
  it.each([
    [10, { start: [3, 7.5], first: [0, 0], later: [3, 2.5] }], // all of it, with ten cards: one comes and goes
    [1000, { start: [3, 7], first: [2, 3], later: [2, 5.5] }],
    [10_000, { start: [3, 4], first: [4, 9], later: [2, 5] }], // without loads at first
  ] as const)('of %d busy workers of twenty models, few serve what a function is asked for', async (count, most) => {
    const proxy = await startCountingTableProxy(server.url);
    const fleet = await makeUpFleet({ tableName: table.tableName, endpoint: server.url }, { count, models: 20 });
    const options = { endpoint: proxy.url, tableName: table.tableName, requestTimeoutMs: 10_000, onProblem() {} };
    const discovery = await DynamoDbDiscovery.open({
      ...options,
      ...{
        isLasting: false,
        showsAskedModels: true,
        staleMsMax: 0,
        refreshTimeoutMs: 10_000,
        operationTimeoutMs: 20_000,
      },
    });
    const witness = new Witness();
    await discovery.watch(instances, witness);
    const uses: [string, TableUse][] = [['start', proxy.take()]];
    await discovery.refresh(60_000, undefined, 'a conversation');
    await discovery.shownModels?.show('other-3');
    expect(witness.present.size).toBe(count <= 50 ? 4 * count : (4 * count) / 20);
    uses.push(['first', proxy.take()]);
    for (let request = 1; request <= 3; request++) {
      await fleet.change();
      proxy.take();
      await discovery.refresh(1, undefined, 'a conversation');
      uses.push(['later', proxy.take()]);
    }
    for (const [when, use] of uses) {
      const [requestsMax, unitsMax] = most[when as keyof typeof most];
      expect(use.readRequests, when).toBeLessThanOrEqual(requestsMax);
      expect(use.readUnits, when).toBeLessThanOrEqual(unitsMax);
      expect(use.writeRequests, when).toBe(0);
    }
    await discovery.close();
    await fleet.close();
    await proxy.close();
  });
});
