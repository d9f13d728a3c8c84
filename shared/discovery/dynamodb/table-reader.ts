import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import type { Item, ItemKey, Table } from '../table/table.ts';
import type { TableTime } from '../table/table-time.ts';
import type { Bucket } from '../types.ts';
import type { LeaseLiveness, LeaseRow } from './lease-liveness.ts';
import { keyOfItem, leaseItemKey, NAMESPACES_PK, recordPartition, scopeOf, type TableScope } from './schema.ts';

/** What to read: a bucket's records under an encoded prefix. */
export interface ReadScope {
  readonly bucket: Bucket;
  readonly encodedPrefix: string;
}

/** A record whose lease is dead, with that lease if it is still in the table. */
export interface DeadRecord {
  readonly itemKey: ItemKey;
  readonly leaseId: string;
  readonly epoch: number;
  readonly lease: { readonly itemKey: ItemKey; readonly expiresAtMs: number } | undefined;
}

export interface TableReading {
  /** Texts of live records by key, for the bucket; holds at least what the scopes asked for. */
  texts(bucket: Bucket): ReadonlyMap<string, string>;
  readonly dead: readonly DeadRecord[];
  /** Packed loads of the live leases, by lease id. */
  readonly loads: ReadonlyMap<string, Uint8Array>;
}

interface RecordRow {
  readonly itemKey: ItemKey;
  readonly bucket: Bucket;
  readonly key: string;
  readonly text: string;
  readonly leaseId: string;
  readonly leaseNamespace: string;
  readonly epoch: number;
}

interface SeenLease {
  readonly row: LeaseRow;
  readonly load: Uint8Array | undefined;
  readonly isAlive: boolean;
}

interface ReaderOptions {
  readonly table: Table;
  readonly time: TableTime;
  readonly clock: Clock;
  readonly liveness: LeaseLiveness;
}

/** Reads records and the leases that they hang on, and tells the living from the dead. */
export class TableReader {
  readonly #options: ReaderOptions;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /**
   * Records are read before leases: a record that is seen had its lease written before it. Leases are judged as of when they
   * were asked for: an answer may lie unread for long, in a process that was stopped.
   */
  async read(scopes: readonly ReadScope[], signal: AbortSignal): Promise<TableReading> {
    const rows = await this.#readRecords(scopes, signal);
    const leases = await this.#readLeases(rows, signal);
    const texts = new Map<Bucket, Map<string, string>>();
    const dead: DeadRecord[] = [];
    for (const row of rows) {
      const lease = leases.get(row.leaseId);
      if (lease?.isAlive && lease.row.epoch === row.epoch) {
        const ofBucket = texts.get(row.bucket) ?? new Map<string, string>();
        texts.set(row.bucket, ofBucket.set(row.key, row.text));
      } else {
        dead.push(toDead(row, lease?.row));
      }
    }
    const loads = new Map<string, Uint8Array>();
    for (const [leaseId, { load, isAlive }] of leases) if (isAlive && load !== undefined) loads.set(leaseId, load);
    return { texts: (bucket) => texts.get(bucket) ?? new Map(), dead, loads };
  }

  async #readRecords(scopes: readonly ReadScope[], signal: AbortSignal): Promise<RecordRow[]> {
    const tableScopes = scopes.flatMap(({ bucket, encodedPrefix }) => scopeOf(bucket, encodedPrefix) ?? []);
    const isForAll = tableScopes.some((scope) => scope.namespace === undefined);
    const namespaces = isForAll ? await this.#readNamespaces(signal) : [];
    const rows = new Map<string, RecordRow>(); // by bucket and key: scopes may overlap
    await inBatches(distinctQueries(tableScopes, namespaces), async ({ bucket, namespace, sortPrefix }) => {
      const items = await this.#options.table.query(recordPartition(bucket, namespace), sortPrefix, signal);
      for (const item of items) {
        const row = toRecordRow(bucket, namespace, item);
        if (row !== undefined) rows.set(`${bucket}/${row.key}`, row);
      }
    });
    return [...rows.values()];
  }

  /** A namespace past its `ttl` was not written for a week: no process that lives is in it. */
  async #readNamespaces(signal: AbortSignal): Promise<string[]> {
    const items = await this.#options.table.query(NAMESPACES_PK, undefined, signal);
    const nowSeconds = this.#options.time.nowMs() / 1000;
    return items.filter((item) => numberOf(item.ttl) >= nowSeconds).map((item) => item.sk?.S ?? '');
  }

  async #readLeases(rows: readonly RecordRow[], signal: AbortSignal): Promise<Map<string, SeenLease>> {
    const { table, time, clock, liveness } = this.#options;
    const partitions = new Set(rows.map(({ leaseNamespace, leaseId }) => leaseItemKey(leaseNamespace, leaseId).pk));
    const leases = new Map<string, SeenLease>();
    await inBatches([...partitions], async (pk) => {
      const [askedAtMs, askedAtTableMs] = [clock.nowMs(), time.nowMs()];
      for (const item of await table.query(pk, undefined, signal)) {
        const row = toLeaseRow(item);
        leases.set(row.leaseId, { row, load: item.load?.B, isAlive: liveness.observe(row, askedAtMs, askedAtTableMs) });
      }
    });
    liveness.prune(clock.nowMs());
    return leases;
  }
}

interface PartitionQuery {
  readonly bucket: Bucket;
  readonly namespace: string;
  readonly sortPrefix: string | undefined;
}

function distinctQueries(scopes: readonly TableScope[], namespaces: readonly string[]): PartitionQuery[] {
  const queries = new Map<string, PartitionQuery>();
  for (const { bucket, namespace, sortPrefix } of scopes) {
    for (const one of namespace === undefined ? namespaces : [namespace]) {
      queries.set(`${bucket}#${one}#${sortPrefix ?? ''}`, { bucket, namespace: one, sortPrefix });
    }
  }
  return [...queries.values()];
}

function toRecordRow(bucket: Bucket, namespace: string, item: Item): RecordRow | undefined {
  const [pk, sk, text, leaseId] = [item.pk?.S, item.sk?.S, item.record?.S, item.leaseId?.S];
  if (pk === undefined || sk === undefined || text === undefined || leaseId === undefined) return undefined; // not ours
  return {
    itemKey: { pk, sk },
    bucket,
    key: keyOfItem(bucket, namespace, sk),
    text,
    leaseId,
    leaseNamespace: item.leaseNs?.S ?? namespace,
    epoch: numberOf(item.epoch),
  };
}

function toLeaseRow(item: Item): LeaseRow {
  return {
    leaseId: item.sk?.S ?? '',
    epoch: numberOf(item.epoch),
    expiresAtMs: numberOf(item.expiresAtMs),
    ttlMs: numberOf(item.ttlMs),
  };
}

function toDead(row: RecordRow, lease: LeaseRow | undefined): DeadRecord {
  const { itemKey, leaseId, epoch, leaseNamespace } = row;
  const isHeldByLease = lease !== undefined && lease.epoch === epoch;
  const leaseKey = leaseItemKey(leaseNamespace, leaseId);
  return {
    itemKey,
    leaseId,
    epoch,
    lease: isHeldByLease ? { itemKey: leaseKey, expiresAtMs: lease.expiresAtMs } : undefined,
  };
}

/** NaN for what is no number: it compares false with everything, so a malformed row is dead. */
function numberOf(attribute: Item[string] | undefined): number {
  return Number(attribute?.N);
}
