import { StoreError } from '../discovery/index.ts';

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
  /** Table time; that of its holder if the state has none. */
  readonly expiresAtMs: number;
  readonly ttlMs: number;
}

/** A snapshot that a pointer names. */
export interface SnapshotPlace {
  /** Log that it was made from (`EventLogState.createdAt`). */
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
 * What routers share without a server: leases with fences, and where the newest snapshot is. No request reads or writes
 * it.
 *
 * Every call can be repeated when its outcome is unknown. It ends within the deadline that the state was opened with,
 * and rejects with a `RouterStateError` or the signal's reason.
 */
export interface RouterState {
  /**
   * Table time: Unix milliseconds on which all processes agree, whatever their own clocks say. Undefined if the state
   * has no time but that of its readers.
   */
  nowMs(): number | undefined;

  readLease(lease: StateName, signal: AbortSignal): Promise<LeaseRow | undefined>;
  /**
   * Makes `holder` the holder until `ttlMs` from now, if the lease still has the fence that was seen (undefined = there
   * was none). Undefined when somebody was faster. Who may try is decided by `LeaseHolder`.
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
  /**
   * There is no snapshot any more; its object is nobody's then, and removed with the second snapshot from now.
   * Idempotent.
   */
  dropPointer(pointer: StateName, signal: AbortSignal): Promise<void>;

  close(): void;
}

/** Why the router's state did not do what it was asked: `unavailable` may pass, `misconfigured` will not by itself. */
export type RouterStateErrorCode = 'unavailable' | 'misconfigured' | 'closed';

/** Failure of the shared state or of a snapshot store. The message is one line for an operator. */
export class RouterStateError extends StoreError<RouterStateErrorCode> {
  override readonly name = 'RouterStateError';
}
