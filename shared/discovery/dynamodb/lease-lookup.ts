import type { Clock, Timer } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import type { Table } from '../table/table.ts';
import { InterruptedCall } from '../table/table-errors.ts';
import { type Fleet, isEarlier, type Member } from './fleet/members.ts';
import { readRecords, toLeaseRow } from './lease-scan.ts';
import { leaseItemKey } from './schema.ts';

export interface LeaseLookupOptions {
  readonly table: Table;
  readonly clock: Clock;
  /** Whether the table may be asked: false while it is known to be unreachable. */
  readonly mayLook: () => boolean;
  /** Reads the missing data for showing the member. */
  readonly prepare: (member: Member, signal: AbortSignal) => Promise<void>;
  /** Shows the last reading, as `with` changes it by all findings since. */
  readonly show: (fleet: Fleet) => void;
  readonly report: (problem: Error) => void;
}

/** Finding of the table about one lease. */
interface Finding {
  /** Current state of the lease; undefined = it has ended for good in this epoch. */
  readonly member: Member | undefined;
  readonly epoch: number;
  readonly atMs: number;
}

/** Least time between two lookups of one process. */
const PAUSE_MS = 1000;
/** Time until a lease is looked up again. For as long, routers avoid a worker that failed, by default. */
const AGAIN_AFTER_MS = 5000;
const LOOKUP_MS_MAX = 2000;
/** Most leases that wait for a lookup. If more fail at once, the network has failed, and leases do not show that. */
const WAITING_MAX = 8;
/** Time after which every view that was gathered before has been replaced. */
const KEPT_MS = 10_000;

/**
 * Looks up single leases of workers that cannot be reached. A worker may have left or moved without the view showing it
 * yet. A finding counts until a reading also has it. Only certain facts count: a lease that was given up or is gone,
 * and records that were written again. Whether a lease that was merely not renewed is dead, only readings of all leases
 * can judge, because they know for how long.
 */
export class LeaseLookup {
  readonly #options: LeaseLookupOptions;
  readonly #closing = new AbortController();
  readonly #waiting = new Set<string>();
  readonly #lookedUpMs = new Map<string, number>(); // by lease id; at most one per second, for five seconds
  readonly #found = new Map<string, Finding>(); // by lease id; at most one per second, for ten seconds
  #read: Fleet = new Map();
  #pause: Timer | undefined;

  constructor(options: LeaseLookupOptions) {
    this.#options = options;
  }

  /** Looks the lease up in the background, unless that has just been done or too many wait. */
  ask(leaseId: string): void {
    const nowMs = this.#options.clock.nowMs();
    for (const [id, atMs] of this.#lookedUpMs) if (nowMs - atMs >= AGAIN_AFTER_MS) this.#lookedUpMs.delete(id);
    const isSpared = this.#lookedUpMs.has(leaseId) || this.#waiting.size >= WAITING_MAX;
    if (isSpared || this.#closing.signal.aborted || !this.#options.mayLook()) return;
    this.#waiting.add(leaseId);
    this.#begin();
  }

  /** Returns `fleet`, which was just read, with the findings applied. */
  with(fleet: Fleet): Fleet {
    this.#read = fleet;
    const nowMs = this.#options.clock.nowMs();
    for (const [leaseId, { atMs }] of this.#found) if (nowMs - atMs >= KEPT_MS) this.#found.delete(leaseId);
    if (this.#found.size === 0) return fleet;
    const known = new Map(fleet);
    for (const [leaseId, { member, epoch }] of this.#found) {
      const read = fleet.get(leaseId);
      if (read === undefined) continue;
      if (member === undefined && read.epoch <= epoch) known.delete(leaseId);
      if (member !== undefined && isEarlier(read, member)) known.set(leaseId, { ...member, load: read.load });
    }
    return known;
  }

  close(): void {
    this.#pause?.cancel();
    this.#waiting.clear();
    this.#closing.abort(new Error('the discovery handle is closed'));
  }

  #begin(): void {
    const [leaseId] = this.#waiting;
    if (leaseId === undefined || this.#pause !== undefined) return;
    const { clock } = this.#options;
    this.#waiting.delete(leaseId);
    this.#lookedUpMs.set(leaseId, clock.nowMs());
    this.#pause = clock.after(PAUSE_MS, () => {
      this.#pause = undefined;
      this.#begin();
    });
    void this.#lookUp(leaseId); // never rejects, and no call waits for it
  }

  async #lookUp(leaseId: string): Promise<void> {
    const { clock, table, mayLook, show, report } = this.#options;
    const { signal } = this.#closing;
    const known = this.with(this.#read).get(leaseId);
    if (known === undefined || !mayLook()) return;
    try {
      const lateMessage = `no answer about a lease within ${LOOKUP_MS_MAX} ms`;
      const bounds = { clock, timeoutMs: LOOKUP_MS_MAX, signal, lateMessage };
      const finding = await withDeadline(bounds, (limited) => this.#find(known, limited));
      if (finding === undefined || !mayLook()) return;
      this.#found.set(leaseId, finding);
      show(this.with(this.#read));
    } catch (error) {
      if (!signal.aborted && !(error instanceof InterruptedCall)) report(table.explain(error));
    }
  }

  /** Returns undefined if the table shows nothing new. */
  async #find(known: Member, signal: AbortSignal): Promise<Finding | undefined> {
    const { table, clock, prepare } = this.#options;
    const { leaseId, epoch } = known;
    const item = await table.get(leaseItemKey(leaseId), signal);
    const row = item === undefined ? undefined : toLeaseRow(item);
    // A process that lost its lease registers again under a later epoch, so no state of this one comes back.
    if (row === undefined || row.rev === 0) return { member: undefined, epoch, atMs: clock.nowMs() };
    if (!isEarlier(known, row)) return undefined;
    const block = await readRecords(table, row, signal);
    const member: Member = { leaseId, epoch: row.epoch, rev: row.rev, block, load: known.load };
    await prepare(member, signal);
    return { member, epoch: row.epoch, atMs: clock.nowMs() };
  }
}
