import { setMaxListeners } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../shared/clock/index.ts';
import { inBatches } from '../../../shared/concurrency/index.ts';
import { CardWriter, ownCardOf, packCatalogue } from '../../../shared/discovery/dynamodb/catalogue.ts';
import { DynamoDbDiscovery } from '../../../shared/discovery/dynamodb/dynamodb-discovery.ts';
import type { Fleet, Member } from '../../../shared/discovery/dynamodb/fleet/members.ts';
import { packBlock, packRecord } from '../../../shared/discovery/dynamodb/fleet/record-bytes.ts';
import { LeaseWriter } from '../../../shared/discovery/dynamodb/lease-writer.ts';
import { discoveryTablePlace } from '../../../shared/discovery/dynamodb/schema.ts';
import { ViewReader } from '../../../shared/discovery/dynamodb/view-reader.ts';
import { ViewWriter } from '../../../shared/discovery/dynamodb/view-writer.ts';
import { Table, TableTime } from '../../../shared/discovery/index.ts';
import { addressOf } from '../../../shared/discovery/keys.ts';
import { packLoads } from '../../../shared/discovery/loads.ts';
import type { DiscoveryRecord, EndpointRecord, ModelRecord } from '../../../shared/discovery/records.ts';
import { momentOf } from '../../../shared/discovery/table/table-time.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import { createTestTable, type TestTable } from '../../contract/discovery/test-table.ts';
import { startCountingTableProxy, type TableUse } from '../../support/counting-table-proxy.ts';
import { type DynamoDbServer, hasDynamoDb, startDynamoDb, waitUntil } from '../../support/index.ts';

const { signal } = new AbortController();
setMaxListeners(0, signal); // for the parallel calls of many workers
const LEASE_MS = 300_000;
const instances = { bucket: 'v1/instances', prefix: '' } as const;

/** Records as a worker has them: what it serves, how it is steered, where its events come from. */
function recordsOf(id: string, at: number): readonly DiscoveryRecord[] {
  const address = `10.${at >> 12}.${(at >> 6) & 63}.${at & 63}:${8800 + (at % 64)}`;
  const endpoints = ['generate', 'clear_kv_blocks', 'cancel', 'kv_recovery_0'];
  const served = endpoints.map((endpoint): EndpointRecord => endpointAt(`dynamo/backend/${endpoint}/${id}`, address));
  const scope = { kind: 'component', namespace: 'dynamo', component: 'backend' } as const;
  const channels = ['kv-events', 'kv_metrics'].map((topic) => ({
    type: 'EventChannel' as const,
    scope,
    topic,
    instance_id: id,
    worker_id: id,
    transport: { kind: 'Nats' as const, config: { subject_prefix: `dynamo.backend.${topic}` } },
  }));
  return [...served, modelAt(`dynamo/backend/generate/${id}`), ...channels];
}

function loadOf(id: string, requests: number): Uint8Array {
  const ranks = [{ dpRank: 0, requests, decodeBlocks: 400 * requests, prefillTokens: 8000 }];
  return packLoads(new Map([[id, { ranks, isDraining: false }]]));
}

/** What reading the fleet costs, counted before a real server. The page docs/router-state.md prices these counts. */
describe.runIf(hasDynamoDb())('what the fleet costs', { timeout: 60_000 }, () => {
  let server: DynamoDbServer;
  let table: TestTable;
  beforeAll(async () => {
    server = await startDynamoDb();
    table = await createTestTable(server.url);
  });
  afterAll(async () => {
    await table.drop();
    await server.stop();
  });

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
      const lease = { ...opened, clock: systemClock, leaseId: id, ttlMs: LEASE_MS, load: () => loadOf(id, at % 50) };
      const writer = new LeaseWriter(lease);
      await writer.ensureLease(signal);
      for (const record of recordsOf(id, at)) {
        if (record.type === 'Model') await cards.ensureCard(ownCardOf(record), signal);
        await writer.writeRecord({ address: addressOf(record), instanceId: id, bytes: packed(record) }, signal);
      }
      await writer.tellChange(signal);
    });
    return { ids, close: () => opened.table.close() };
  }

  function packed(record: DiscoveryRecord): Uint8Array {
    if (record.type !== 'Model') return packRecord(record);
    const { card: _, ...rest }: ModelRecord = record;
    const { sum, own } = ownCardOf(record).split;
    return packRecord({ ...rest, cardSum: sum, ownCard: own });
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
    const discovery = await DynamoDbDiscovery.open({ ...options, refreshTimeoutMs: 10_000 });
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
      const [proxy, writes] = [await startCountingTableProxy(server.url), await startCountingTableProxy(server.url)];
      const opened = await openTable(writes.url);
      const view = await openView(opened, count);
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
        writes.take();
        await view.write(request); // every load has changed, and a worker has come or gone
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
      opened.table.close();
      await Promise.all([proxy.close(), writes.close()]);
    },
  );

  /** The view as a gatherer writes it, of workers that nobody registers one by one. */
  async function openView(opened: { readonly table: Table; readonly time: TableTime }, count: number) {
    const [model] = recordsOf('1', 1).filter((record) => record.type === 'Model');
    await new CardWriter(opened.table, opened.time, systemClock).ensureCard(ownCardOf(model as ModelRecord), signal);
    const members = Array.from({ length: count + 1 }, (_, at): Member => {
      const id = random.instanceId();
      return { leaseId: id, epoch: 1, rev: 1, block: packBlock(recordsOf(id, at).map(packed)), load: new Uint8Array() };
    });
    const writer = new ViewWriter({ ...opened, clock: systemClock, holder: 'test', ttlMs: 60_000 });
    await writer.take(await new ViewReader(opened.table).readHead(signal), signal);
    const write = async (round: number): Promise<void> => {
      const gone = members[round % 2]?.leaseId;
      const living = members.filter(({ leaseId }) => leaseId !== gone);
      const fleet: Fleet = new Map(
        living.map((member, at) => [member.leaseId, { ...member, load: loadOf(member.leaseId, (at + round) % 50) }]),
      );
      await writer.write(fleet, packCatalogue([]), momentOf(systemClock), signal);
    };
    await write(0);
    return { write };
  }
});
