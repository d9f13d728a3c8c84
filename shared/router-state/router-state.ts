import { StoreError } from '../discovery/index.ts';

/** Name of a lease or a pointer. */
export interface StateName {
  readonly namespace: string;
  readonly name: string;
}

/** Row of a lease. */
export interface LeaseRow {
  /** Holder; empty = given back. */
  readonly holder: string;
  /** Fence, which grows with every write of the lease and never goes back. */
  readonly fence: number;
  /** Expiry in table time, or in the time of its holder if the state has no table time. */
  readonly expiresAtMs: number;
  readonly ttlMs: number;
}

/** A snapshot that a pointer names. */
export interface SnapshotPlace {
  /** Log that the snapshot was made from (`EventLogState.createdAt`). */
  readonly createdAt: string;
  /** Last sequence that the snapshot contains. */
  readonly sequence: number;
  /** Name in the snapshot store. */
  readonly object: string;
}

/** Place of the newest snapshot. */
export interface SnapshotPointer extends SnapshotPlace {
  /** Fence of the lease under which the pointer was moved. */
  readonly fence: number;
  /** Version, which grows by one with every move. */
  readonly version: number;
  /** The previous snapshot, which is kept, too. */
  readonly previous: SnapshotPlace | undefined;
}

/**
 * State that routers share without a server: leases with fences, and the place of the newest snapshot. No request reads
 * or writes it.
 *
 * A caller can repeat every call whose outcome is unknown. A call ends within the deadline that the state was opened
 * with, and rejects with a `RouterStateError` or the signal's reason.
 */
export interface RouterState {
  /**
   * Returns table time: Unix milliseconds on which all processes agree, even if their own clocks differ. Undefined if
   * the state has only the time of its readers.
   */
  nowMs(): number | undefined;

  readLease(lease: StateName, signal: AbortSignal): Promise<LeaseRow | undefined>;
  /**
   * Makes `holder` the holder until `ttlMs` from now, if the lease still has the fence that the caller saw (undefined =
   * it saw no lease). Returns undefined if another process was faster. `LeaseHolder` decides who may try.
   */
  takeLease(
    lease: StateName,
    take: { readonly holder: string; readonly ttlMs: number; readonly seenFence: number | undefined },
    signal: AbortSignal,
  ): Promise<LeaseRow | undefined>;
  /** Extends a lease that `holder` holds. Returns undefined if it does not. */
  renewLease(lease: StateName, holder: string, ttlMs: number, signal: AbortSignal): Promise<LeaseRow | undefined>;
  /** Gives the lease back, if `holder` holds it. Then any process may take it at once. */
  endLease(lease: StateName, holder: string, signal: AbortSignal): Promise<void>;

  readPointer(pointer: StateName, signal: AbortSignal): Promise<SnapshotPointer | undefined>;
  /** Moves the pointer, if it still has the version that the caller saw and no later fence than `fence`. */
  movePointer(
    pointer: StateName,
    move: { readonly to: SnapshotPlace; readonly fence: number; readonly seen: SnapshotPointer | undefined },
    signal: AbortSignal,
  ): Promise<boolean>;
  /**
   * Drops the pointer, so that there is no snapshot. Its object is removed with the second snapshot from now.
   * Idempotent.
   */
  dropPointer(pointer: StateName, signal: AbortSignal): Promise<void>;

  close(): void;
}

/** Reason of a failure. `unavailable` may pass; `misconfigured` does not pass without a change. */
export type RouterStateErrorCode = 'unavailable' | 'misconfigured' | 'closed';

/** Failure of the shared state or of a snapshot store. The message is one line for an operator. */
export class RouterStateError extends StoreError<RouterStateErrorCode> {
  override readonly name = 'RouterStateError';
}
