import type { Clock } from '../../clock/index.ts';
import { StoreError } from '../../discovery/table/index.ts';

/** One data-parallel rank of one worker. */
export interface RankId {
  /** Instance id, lower-case hex. */
  readonly workerId: string;
  readonly dpRank: number;
}

/** A lease or a pointer. */
export interface StateName {
  readonly namespace: string;
  readonly name: string;
}

/** A lease as it stands. */
export interface LeaseRow {
  /** Empty = given back. */
  readonly holder: string;
  /** Grows with every writing of the lease, and never goes back. */
  readonly fence: number;
  /** Table time. */
  readonly expiresAtMs: number;
  readonly ttlMs: number;
}

/** A snapshot that a pointer names. */
export interface SnapshotPlace {
  /** Which log it was folded from (`EventLogState.createdAt`). */
  readonly createdAt: string;
  /** The last sequence that it holds. */
  readonly sequence: number;
  /** Name in the snapshot store. */
  readonly object: string;
}

/** Where the newest snapshot is. */
export interface SnapshotPointer extends SnapshotPlace {
  /** Of the lease under which it was moved here. */
  readonly fence: number;
  /** Grows by one with every move. */
  readonly version: number;
  /** The one before, which is kept, too. */
  readonly previous: SnapshotPlace | undefined;
}

/**
 * What routers share without a server: leases with fences, and where the newest snapshot is. No request reads or writes it.
 *
 * Every call can be repeated when its outcome is unknown. It ends within the deadline that the state was opened with, and
 * rejects with a `RouterStateError` or the signal's reason.
 */
export interface RouterState {
  readonly name: 'memory' | 'dynamodb';
  /** Table time: Unix milliseconds on which all processes agree, whatever their own clocks say. */
  nowMs(): number;

  readLease(lease: StateName, signal: AbortSignal): Promise<LeaseRow | undefined>;
  /**
   * Makes `holder` the holder until `ttlMs` from now, if the lease still has the fence that was seen (undefined = there was
   * none). Undefined when somebody was faster. Who may try is decided by `LeaseHolder`.
   */
  takeLease(
    lease: StateName,
    take: { readonly holder: string; readonly ttlMs: number; readonly seenFence: number | undefined },
    signal: AbortSignal,
  ): Promise<LeaseRow | undefined>;
  /** Extends a lease that `holder` holds. Undefined when it does not. */
  renewLease(lease: StateName, holder: string, ttlMs: number, signal: AbortSignal): Promise<LeaseRow | undefined>;
  /** Gives the lease back, if `holder` holds it: anybody may take it at once. */
  endLease(lease: StateName, holder: string, signal: AbortSignal): Promise<void>;

  readPointer(pointer: StateName, signal: AbortSignal): Promise<SnapshotPointer | undefined>;
  /** Moves the pointer, if it still has the version that was seen and no later fence than `fence`. */
  movePointer(
    pointer: StateName,
    move: { readonly to: SnapshotPlace; readonly fence: number; readonly seen: SnapshotPointer | undefined },
    signal: AbortSignal,
  ): Promise<boolean>;
  /** There is no snapshot any more; its object is nobody's then, and removed with the second snapshot from now. Idempotent. */
  dropPointer(pointer: StateName, signal: AbortSignal): Promise<void>;

  close(): void;
}

/** Why the router's state did not do what it was asked: `unavailable` may pass, `misconfigured` will not by itself. */
export type RouterStateErrorCode = 'unavailable' | 'misconfigured' | 'closed';

/** Failure of the shared state or of a snapshot store. The message is one line for an operator. */
export class RouterStateError extends StoreError<RouterStateErrorCode> {
  override readonly name = 'RouterStateError';
}

/** What the states of one process share, as processes share a table. Its clock is the table's time. */
export class MemoryRouterStateHub {
  readonly clock: Clock;
  readonly leases = new Map<string, LeaseRow>();
  readonly pointers = new Map<string, SnapshotPointer>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** A handle of one participant. */
  open(): RouterState {
    return new MemoryRouterState(this);
  }
}

/** Router state inside one process: for a laptop, one virtual machine, tests and the simulator. */
class MemoryRouterState implements RouterState {
  readonly name = 'memory';
  readonly #hub: MemoryRouterStateHub;
  #isClosed = false;

  constructor(hub: MemoryRouterStateHub) {
    this.#hub = hub;
  }

  nowMs(): number {
    return this.#hub.clock.wallMs();
  }

  async readLease(lease: StateName, signal: AbortSignal): Promise<LeaseRow | undefined> {
    this.#assertOpen(signal);
    return this.#hub.leases.get(nameKey(lease));
  }

  async takeLease(...args: Parameters<RouterState['takeLease']>): Promise<LeaseRow | undefined> {
    const [lease, { holder, ttlMs, seenFence }, signal] = args;
    this.#assertOpen(signal);
    const present = this.#hub.leases.get(nameKey(lease));
    if (present?.fence !== seenFence) return undefined;
    return this.#writeLease(lease, { holder, ttlMs, fence: (seenFence ?? 0) + 1, expiresAtMs: this.nowMs() + ttlMs });
  }

  async renewLease(...args: Parameters<RouterState['renewLease']>): Promise<LeaseRow | undefined> {
    const [lease, holder, ttlMs, signal] = args;
    this.#assertOpen(signal);
    const present = this.#hub.leases.get(nameKey(lease));
    if (present === undefined || present.holder !== holder) return undefined;
    return this.#writeLease(lease, { holder, ttlMs, fence: present.fence + 1, expiresAtMs: this.nowMs() + ttlMs });
  }

  async endLease(lease: StateName, holder: string, signal: AbortSignal): Promise<void> {
    this.#assertOpen(signal);
    const present = this.#hub.leases.get(nameKey(lease));
    if (present === undefined || present.holder !== holder) return;
    this.#writeLease(lease, { ...present, holder: '', fence: present.fence + 1, expiresAtMs: 0 });
  }

  async readPointer(pointer: StateName, signal: AbortSignal): Promise<SnapshotPointer | undefined> {
    this.#assertOpen(signal);
    return this.#hub.pointers.get(nameKey(pointer));
  }

  async movePointer(...args: Parameters<RouterState['movePointer']>): Promise<boolean> {
    const [pointer, { to, fence, seen }, signal] = args;
    this.#assertOpen(signal);
    const present = this.#hub.pointers.get(nameKey(pointer));
    if (present?.version !== seen?.version || (present?.fence ?? fence) > fence) return false;
    const { createdAt, sequence, object } = to;
    const previous =
      present === undefined
        ? undefined
        : { createdAt: present.createdAt, sequence: present.sequence, object: present.object };
    const version = (present?.version ?? 0) + 1;
    this.#hub.pointers.set(nameKey(pointer), { createdAt, sequence, object, fence, version, previous });
    return true;
  }

  async dropPointer(pointer: StateName, signal: AbortSignal): Promise<void> {
    this.#assertOpen(signal);
    this.#hub.pointers.delete(nameKey(pointer));
  }

  close(): void {
    this.#isClosed = true;
  }

  #writeLease(lease: StateName, row: LeaseRow): LeaseRow {
    this.#hub.leases.set(nameKey(lease), row);
    return row;
  }

  #assertOpen(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.#isClosed) throw new RouterStateError('closed', 'this handle of the router state was closed');
  }
}

function nameKey({ namespace, name }: StateName): string {
  return [namespace, name].map(encodeURIComponent).join('/');
}
