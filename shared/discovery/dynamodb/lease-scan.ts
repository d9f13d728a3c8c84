import type { Clock } from '../../clock/index.ts';
import { inBatches } from '../../concurrency/index.ts';
import type { Item, Table } from '../table/table.ts';
import type { TableTime } from '../table/table-time.ts';
import { type Fleet, isEarlier, type Member } from './fleet/members.ts';
import { packBlock } from './fleet/record-bytes.ts';
import { LEASE_PARTITIONS, recordsPartition } from './schema.ts';

/** Options of a scan of the leases. */
interface ScanRequest {
  /** Whether the scan must see everything that was written before it began; costs twice the read units. */
  readonly isExact: boolean;
  /** Whether to skip partitions with nothing but renewals every other time. */
  readonly mayRest: boolean;
}

/** A lease that has ended. */
export interface DeadLease {
  readonly leaseId: string;
  readonly epoch: number;
  /** State of the lease when it was seen. */
  readonly expiresAtMs: number;
}

interface LeaseReading {
  readonly fleet: Fleet;
  readonly dead: readonly DeadLease[];
}

interface SeenLease extends LeaseItem {
  readonly isAlive: boolean;
  /** Number of the scan that first saw it. */
  readonly since: number;
}

interface ScanOptions {
  readonly table: Table;
  readonly time: TableTime;
  readonly clock: Clock;
  readonly liveness: LeaseLiveness;
}

/** Most processes whose records one scan reads, unless it is exact. The next scans read the others. */
const FETCHES_MAX = 512;
const NOTHING: Uint8Array = new Uint8Array();

/**
 * Reads the leases of the whole fleet, and the records of those whose `rev` is new. It remembers what it has read, so
 * that the next scan costs only the leases. `adopt` makes it begin with the content of a view.
 */
export class LeaseScan {
  readonly #options: ScanOptions;
  readonly #partitions = new Map<string, ReadonlyMap<string, SeenLease>>(); // as last read; each by lease id
  readonly #blocks = new Map<string, Member>(); // records as last read, by lease id; only of leases that exist
  readonly #resting = new Set<string>(); // partitions that the next scan leaves out
  #scans = 0;

  constructor(options: ScanOptions) {
    this.#options = options;
  }

  /**
   * Treats the records in `fleet` as read. With `isTrusted`, its processes count as seen alive just now. It is for a
   * view that was current until a moment ago: an outage then kept the processes from renewing, so an expired lease does
   * not mean death.
   */
  adopt(fleet: Fleet, isTrusted: boolean): void {
    for (const member of fleet.values()) {
      const known = this.#blocks.get(member.leaseId);
      if (known === undefined || isEarlier(known, member)) this.#blocks.set(member.leaseId, member);
      if (isTrusted) this.#options.liveness.trust(member.leaseId, member.epoch);
    }
  }

  /** Notes that other processes have read in the meantime, so that quiet partitions may have changed. */
  wake(): void {
    this.#resting.clear();
  }

  /** Scans. Rejects if the table cannot be read, and keeps what it has read until then. */
  async read({ isExact, mayRest }: ScanRequest, signal: AbortSignal): Promise<LeaseReading> {
    this.#scans++;
    const partitions = mayRest ? LEASE_PARTITIONS.filter((pk) => !this.#resting.has(pk)) : LEASE_PARTITIONS;
    this.#resting.clear();
    await inBatches(partitions, (pk) => this.#readPartition(pk, isExact, mayRest, signal));
    this.#options.liveness.prune(this.#options.clock.nowMs());
    const leases = [...this.#partitions.values()].flatMap((partition) => [...partition.values()]);
    const alive = leases.filter(({ isAlive, rev }) => isAlive && rev > 0);
    await this.#fetchRecords(alive, isExact ? Number.POSITIVE_INFINITY : FETCHES_MAX, signal);
    return { fleet: this.#fleetOf(alive), dead: leases.filter(({ isAlive }) => !isAlive) };
  }

  /** Judges leases as of the time of the request, because in a stopped process an answer may wait unread for long. */
  async #readPartition(pk: string, isExact: boolean, mayRest: boolean, signal: AbortSignal): Promise<void> {
    const { table, time, clock, liveness } = this.#options;
    const [askedAtMs, askedAtTableMs] = [clock.nowMs(), time.nowMs()];
    const before = this.#partitions.get(pk) ?? new Map<string, SeenLease>();
    const now = new Map<string, SeenLease>();
    for (const item of await table.query(pk, undefined, signal, isExact)) {
      const row = toLeaseRow(item);
      if (row === undefined) continue;
      const known = before.get(row.leaseId);
      const isOld = known !== undefined && isStale(row, known); // a replica that lags: a later state was seen before
      const current = isOld ? known : row;
      const isAlive = liveness.observe(current, askedAtMs, askedAtTableMs);
      now.set(row.leaseId, { ...current, isAlive, since: known?.since ?? this.#scans });
    }
    for (const [leaseId, lease] of before) {
      if (now.has(leaseId)) continue;
      if (!isExact && lease.since === this.#scans - 1)
        now.set(leaseId, lease); // so new that a replica may not have it
      else this.#blocks.delete(leaseId);
    }
    this.#partitions.set(pk, now);
    const hasNews = before.size !== now.size || [...now].some(([leaseId, lease]) => isNews(lease, before.get(leaseId)));
    if (mayRest && !hasNews) this.#resting.add(pk);
  }

  async #fetchRecords(alive: readonly SeenLease[], fetchesMax: number, signal: AbortSignal): Promise<void> {
    const changed = alive.filter((lease) => {
      const block = this.#blocks.get(lease.leaseId);
      return block === undefined || isEarlier(block, lease);
    });
    await inBatches(changed.slice(0, fetchesMax), async ({ leaseId, epoch, rev }) => {
      const block = await readRecords(this.#options.table, { leaseId, epoch }, signal);
      this.#blocks.set(leaseId, { leaseId, epoch, rev, block, load: NOTHING });
    });
  }

  #fleetOf(alive: readonly SeenLease[]): Fleet {
    const fleet = new Map<string, Member>();
    for (const { leaseId, epoch, load } of alive) {
      const block = this.#blocks.get(leaseId);
      if (block?.epoch === epoch) fleet.set(leaseId, { ...block, load });
    }
    return fleet;
  }
}

/**
 * Compares epoch and revision, not expiry, which may go back with the process's estimate of the table's time. A lease
 * that was given up has no expiry.
 */
function isStale(row: LeaseItem, before: SeenLease): boolean {
  return row.expiresAtMs !== 0 && isEarlier(row, before);
}

function isNews(now: SeenLease, before: SeenLease | undefined): boolean {
  if (before === undefined || now.isAlive !== before.isAlive || now.epoch !== before.epoch || now.rev !== before.rev)
    return true;
  return Buffer.compare(now.load, before.load) !== 0;
}

/** A lease as its process writes it. */
interface LeaseItem extends LeaseRow {
  /** Number that each change of the records increments; 0 = nothing was registered yet, or the lease was given up. */
  readonly rev: number;
  readonly load: Uint8Array;
}
/** Returns undefined for an item that is not one of our leases. */
export function toLeaseRow(item: Item): LeaseItem | undefined {
  const leaseId = item.sk?.S;
  const numbers = [item.epoch, item.rev, item.expiresAtMs, item.ttlMs].map((attribute) => Number(attribute?.N));
  const [epoch = 0, rev = 0, expiresAtMs = 0, ttlMs = 0] = numbers;
  if (leaseId === undefined || !/^[0-9a-f]{1,16}$/.test(leaseId) || !numbers.every(Number.isSafeInteger))
    return undefined;
  return { leaseId, epoch, rev, expiresAtMs, ttlMs, load: item.load?.B ?? NOTHING };
}

/** Returns the records that a lease holds in its current epoch, as one block. */
export async function readRecords(
  table: Table,
  { leaseId, epoch }: Pick<LeaseRow, 'leaseId' | 'epoch'>,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const items = await table.query(recordsPartition(leaseId), undefined, signal);
  return packBlock(items.flatMap((item) => (Number(item.epoch?.N) === epoch && item.record?.B ? [item.record.B] : [])));
}

/** A lease as read from the table. */
export interface LeaseRow {
  readonly leaseId: string;
  readonly epoch: number;
  /** Expiry in table time. */
  readonly expiresAtMs: number;
  readonly ttlMs: number;
}

interface Sighting {
  readonly epoch: number;
  readonly expiresAtMs: number;
  /** Monotonic time when the lease was first seen, or last seen to change. */
  changedAtMs: number;
  /** Whether it was seen to change, which shows that its holder renews it. */
  readonly hasChanged: boolean;
  lastSeenAtMs: number;
  readonly ttlMs: number;
}

/**
 * Judges which leases are alive. Once this process has seen a lease change, only its own monotonic clock counts: the
 * lease is alive for one time to live after each change, whatever the wall clocks say. A lease seen for the first time
 * is judged by table time, with an allowance of `skewMs`.
 *
 *     first sight    --> table time: alive for one TTL at most
 *     seen to change --> own clock: one TTL from each change
 *
 * A lease that it has not looked at for longer than one TTL is seen for the first time again.
 */
export class LeaseLiveness {
  readonly #skewMs: number;
  readonly #sightings = new Map<string, Sighting>(); // forgotten one TTL after the lease was last in a reading
  /**
   * Epochs of leases that others have just seen alive. Each counts when this process sees the lease for the first time.
   */
  readonly #trusted = new Map<string, number>();

  constructor(skewMs: number) {
    this.#skewMs = skewMs;
  }

  /** Notes `lease`, read at monotonic `nowMs` and table time `tableNowMs`. Returns true if it is alive. */
  observe(lease: LeaseRow, nowMs: number, tableNowMs: number): boolean {
    const before = this.#sightings.get(lease.leaseId);
    const isKnown = before !== undefined && nowMs - before.lastSeenAtMs <= before.ttlMs;
    if (isKnown && before.expiresAtMs === lease.expiresAtMs && before.epoch === lease.epoch) {
      before.lastSeenAtMs = nowMs;
      return this.#isAlive(before, nowMs, tableNowMs);
    }
    const hasChanged = isKnown || this.#trusted.get(lease.leaseId) === lease.epoch;
    this.#trusted.delete(lease.leaseId);
    const sighting: Sighting = { ...lease, changedAtMs: nowMs, hasChanged, lastSeenAtMs: nowMs };
    this.#sightings.set(lease.leaseId, sighting);
    return this.#isAlive(sighting, nowMs, tableNowMs);
  }

  /**
   * Notes that others have just seen the lease alive. If this process has not seen it yet, it then counts as seen to
   * change.
   */
  trust(leaseId: string, epoch: number): void {
    if (!this.#sightings.has(leaseId)) this.#trusted.set(leaseId, epoch);
  }

  /**
   * Notes that the table could not be read, and perhaps not be written, until `nowMs`. Time without a reading does not
   * count against a lease, so that an outage does not look like the death of every worker.
   */
  excuseOutage(nowMs: number): void {
    for (const sighting of this.#sightings.values()) {
      sighting.changedAtMs += nowMs - sighting.lastSeenAtMs;
      sighting.lastSeenAtMs = nowMs;
    }
  }

  /**
   * Forgets leases that no reading has shown for one time to live. Also forgets all trust, which holds only for the
   * reading that has ended.
   */
  prune(nowMs: number): void {
    this.#trusted.clear();
    for (const [leaseId, sighting] of this.#sightings) {
      if (nowMs - sighting.lastSeenAtMs > sighting.ttlMs) this.#sightings.delete(leaseId);
    }
  }

  #isAlive(sighting: Sighting, nowMs: number, tableNowMs: number): boolean {
    if (nowMs - sighting.changedAtMs >= sighting.ttlMs) return false;
    return sighting.hasChanged || sighting.expiresAtMs >= tableNowMs - this.#skewMs;
  }
}
