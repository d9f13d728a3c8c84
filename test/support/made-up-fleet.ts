import { setMaxListeners } from 'node:events';
import { seededRandom, systemClock } from '../../shared/clock/index.ts';
import { CardNamesBook } from '../../shared/discovery/dynamodb/card-names.ts';
import { CardWriter, ownCardOf, packCatalogue } from '../../shared/discovery/dynamodb/catalogue.ts';
import type { Fleet, Member } from '../../shared/discovery/dynamodb/fleet/members.ts';
import { cardSumsOf, packBlock, packRecord } from '../../shared/discovery/dynamodb/fleet/record-bytes.ts';
import { LeaseLiveness, LeaseScan } from '../../shared/discovery/dynamodb/lease-scan.ts';
import { discoveryTablePlace } from '../../shared/discovery/dynamodb/schema.ts';
import { ViewReader } from '../../shared/discovery/dynamodb/view-reader.ts';
import { ViewWriter } from '../../shared/discovery/dynamodb/view-writer.ts';
import { Table, TableTime } from '../../shared/discovery/index.ts';
import { packLoads } from '../../shared/discovery/loads.ts';
import type { DiscoveryRecord, EndpointRecord, ModelRecord } from '../../shared/discovery/records.ts';
import { momentOf } from '../../shared/discovery/table/table-time.ts';
import { endpointAt, modelAt } from '../contract/discovery/records.ts';

/** Returns the records of a worker: the models that it serves, its controls, and the source of its events. */
export function recordsOfWorker(id: string, at: number, model?: string): readonly DiscoveryRecord[] {
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
  const record = modelAt(`dynamo/backend/generate/${id}`);
  const card = model === undefined ? record.card : { ...record.card, display_name: model };
  return [...served, { ...record, card }, ...channels];
}

/** Encodes a record as its process stores it. */
export function packedRecord(record: DiscoveryRecord): Uint8Array {
  if (record.type === 'EventSource') throw new Error('a table has no records of Dynamo');
  if (record.type !== 'Model') return packRecord(record);
  const { card: _, ...rest }: ModelRecord = record;
  const { sum, own } = ownCardOf(record).split;
  return packRecord({ ...rest, cardSum: sum, ownCard: own });
}

/** Encodes the load of one rank, as its process stores it. */
export function packedLoad(id: string, requests: number): Uint8Array {
  const ranks = [{ dpRank: 0, requests, decodeBlocks: 400 * requests, prefillTokens: 8000 }];
  return packLoads(new Map([[id, { ranks, isDraining: false }]]));
}

/** A fleet of imaginary and real processes, with a view that stays up to date. */
export interface MadeUpFleet {
  /** Changes every load, and lets one process come or go. Then writes the view. */
  change(): Promise<void>;
  /** Releases the view, so that a real process gathers it. */
  close(): Promise<void>;
}

const NEVER = new AbortController().signal;
setMaxListeners(0, NEVER); // for the parallel calls of a view

/**
 * Writes the view of `count` imaginary workers of `models` models, and of the processes that hold leases. It writes the
 * view again until the fleet is closed, so that no other process gathers it.
 *
 * @param everyMs milliseconds between writes. @default only `change` writes it
 */
export async function makeUpFleet(
  { tableName, endpoint }: { readonly tableName: string; readonly endpoint: string },
  { count, models, everyMs }: { readonly count: number; readonly models: number; readonly everyMs?: number },
): Promise<MadeUpFleet> {
  const clock = systemClock;
  const random = seededRandom(7);
  const time = new TableTime(clock);
  const place = discoveryTablePlace({ tableName, endpoint, region: undefined });
  const table = await Table.open(place, { clock, random, time, requestTimeoutMs: 30_000 });
  const cards = new CardWriter(table, time, clock);
  const names = new CardNamesBook(table, clock);
  const modelOf = (at: number): string => `other-${at % models}`;
  for (let at = 0; at < Math.min(models, count + 1); at++) {
    for (const record of recordsOfWorker('1', 1, modelOf(at)))
      if (record.type === 'Model') await cards.ensureCard(ownCardOf(record), NEVER);
  }
  const members = Array.from({ length: count + 1 }, (_, at): Member => {
    const id = random.instanceId();
    const block = packBlock(recordsOfWorker(id, at, modelOf(at)).map(packedRecord));
    return { leaseId: id, epoch: 1, rev: 1, block, load: packedLoad(id, at % 50) };
  });
  const scan = new LeaseScan({ table, time, clock, liveness: new LeaseLiveness(1000) });
  const writer = new ViewWriter({ table, time, clock, holder: 'made up', ttlMs: 60_000 });
  // the process that gathers may write in between
  while (!(await writer.take(await new ViewReader(table).readHead(NEVER), NEVER)));
  let round = 0;
  const write = async (): Promise<void> => {
    const { fleet: real } = await scan.read({ isExact: true, mayRest: false }, NEVER);
    const gone = members[round % 2]?.leaseId;
    const fleet: Fleet = new Map([
      ...members.filter(({ leaseId }) => leaseId !== gone).map((member) => [member.leaseId, member] as const),
      ...real,
    ]);
    const sums = new Set([...fleet.values()].flatMap(({ block }) => cardSumsOf(block)));
    const hasNewNames = await names.learn(sums, NEVER);
    const namesOf = (sum: string) => names.namesOf(sum);
    await writer.write({ fleet, catalogue: packCatalogue([]), namesOf, hasNewNames }, momentOf(clock), NEVER);
  };
  const change = async (): Promise<void> => {
    round++;
    for (const [at, member] of members.entries()) {
      members[at] = { ...member, load: packedLoad(member.leaseId, (at + round) % 50) };
    }
    await write();
  };
  await write();
  let writing = Promise.resolve();
  let isClosed = false;
  const timer =
    everyMs === undefined
      ? undefined
      : setInterval(() => {
          writing = writing.then(() => (isClosed ? undefined : write()));
        }, everyMs);
  return {
    change,
    close: async () => {
      isClosed = true;
      clearInterval(timer);
      await writing;
      await writer.release(NEVER);
      table.close();
    },
  };
}
