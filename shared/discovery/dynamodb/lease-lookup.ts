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
  /** Whether to ask the table: not while it is known to be unreachable. */
  readonly mayLook: () => boolean;
  /** Reads what is missing to show the member. */
  readonly prepare: (member: Member, signal: AbortSignal) => Promise<void>;
  /** Shows the result of `with` for the last reading and everything found since. */
  readonly show: (fleet: Fleet) => void;
  readonly report: (problem: Error) => void;
}

/** Finding of the table about one lease. */
interface Finding {
  /** Current state of the lease; undefined = it has ended, in this epoch and for good. */
  readonly member: Member | undefined;
  readonly epoch: number;
  readonly atMs: number;
}

/** Time between the beginnings of two lookups of one process. */
const PAUSE_MS = 1000;
/** Time until a lease is looked up again: as long as a worker that failed is avoided by default. */
const AGAIN_AFTER_MS = 5000;
const LOOKUP_MS_MAX = 2000;
/**
 * Largest number of leases that wait for their turn. If more fail at once, the network failed, and no lease shows that.
 */
const WAITING_MAX = 8;
/** Time after which a view that was gathered before has been replaced. */
const KEPT_MS = 10_000;

/**
 * Looks up single leases whose workers cannot be reached, ahead of the view: a worker may have left or moved, and the
 * view does not show it yet. A finding counts until a reading has it too. Only certain facts count: a lease that was
 * given up or is gone, and records that were written anew. A lease that has merely not been renewed is judged by the
 * readings of leases, which know for how long.
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

  /** Looks the lease up in the background, unless that was done just now or too many wait. */
  ask(leaseId: string): void {
    const nowMs = this.#options.clock.nowMs();
    for (const [id, atMs] of this.#lookedUpMs) if (nowMs - atMs >= AGAIN_AFTER_MS) this.#lookedUpMs.delete(id);
    const isSpared = this.#lookedUpMs.has(leaseId) || this.#waiting.size >= WAITING_MAX;
    if (isSpared || this.#closing.signal.aborted || !this.#options.mayLook()) return;
    this.#waiting.add(leaseId);
    this.#begin();
  }

  /** Returns the fleet with the findings, now that `fleet` was read. */
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

  /** Returns undefined if the table says no more than is known. */
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
