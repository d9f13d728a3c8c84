import type { RankWeight } from '../scheduler/types.ts';

/** Workers that serve one endpoint: what counters and fleet items are kept for. */
export interface PoolAddress {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

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

/**
 * A decider's change of what it has reserved. The same decider and number is the same change, however often it is sent: that
 * is what makes it safe to repeat a write whose answer was lost.
 */
export interface ReservationChange {
  readonly rank: RankId;
  /** What is reserved with this change. */
  readonly amounts: RankWeight;
  /** Hex; unique per process incarnation. */
  readonly deciderId: string;
  /** Grows with every change that this decider makes to this rank; one change of a rank is under way at a time. */
  readonly number: number;
}

/** What a worker says of one of its ranks; cumulative, so that a report replaces all earlier ones. */
export interface LoadReport {
  readonly rank: RankId;
  /** Grows with every report of this rank: an older one that arrives late changes nothing. */
  readonly number: number;
  /** Under way at the engine now. */
  readonly active: RankWeight;
  /** Reserved amounts that arrived since the worker started, plus what was written off. */
  readonly acked: RankWeight;
  readonly kvUsedBlocks: number;
}

/** The load of one rank as the table knows it. */
export interface LoadRow {
  readonly rank: RankId;
  readonly active: RankWeight;
  readonly reserved: RankWeight;
  readonly acked: RankWeight;
  readonly kvUsedBlocks: number;
  /** Number of the worker's last report. */
  readonly reportNumber: number;
  /** Table time. */
  readonly reportedAtMs: number;
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

/** One cell of a fleet item as it was written. */
export interface FleetItemRow {
  readonly body: Uint8Array;
  /** Table time. */
  readonly writtenAtMs: number;
}

/** Which cell of which fleet, and which copy of it. */
export interface FleetItemKey {
  readonly pool: PoolAddress;
  readonly cell: number;
  readonly copy: number;
}

/**
 * What routers share without a server. Every attribute has one kind of writer: deciders `reserve`, the
 * worker `report`s, the lease holder writes fleet items and moves the pointer.
 *
 * Every call can be repeated when its outcome is unknown. It ends within the deadline that the state was opened with, and
 * rejects with a `RouterStateError` or the signal's reason.
 */
export interface RouterState {
  readonly name: 'memory' | 'dynamodb';
  /** Table time: Unix milliseconds on which all processes agree, whatever their own clocks say. */
  nowMs(): number;

  /** Adds to what is reserved at a rank. False when the rank is unknown: it never reported, or was withdrawn. */
  reserve(pool: PoolAddress, change: ReservationChange, signal: AbortSignal): Promise<boolean>;
  /** Takes back a reservation that never went to its worker. A change of its own, with a number of its own. */
  release(pool: PoolAddress, change: ReservationChange, signal: AbortSignal): Promise<boolean>;
  /** Replaces the worker's side of a rank, and makes the rank known. Resolves with all that was ever reserved there. */
  report(pool: PoolAddress, report: LoadReport, signal: AbortSignal): Promise<RankWeight>;
  /** Forgets a rank. Idempotent. */
  withdraw(pool: PoolAddress, rank: RankId, signal: AbortSignal): Promise<void>;
  /** Forgets a rank whose worker has not reported since `seen`. False when it has, or the rank is forgotten already. */
  sweep(pool: PoolAddress, seen: Pick<LoadRow, 'rank' | 'reportNumber'>, signal: AbortSignal): Promise<boolean>;
  loads(pool: PoolAddress, signal: AbortSignal): Promise<readonly LoadRow[]>;

  /** Writes a cell, unless one was written under a later fence: then false. */
  writeFleetItem(key: FleetItemKey, body: Uint8Array, fence: number, signal: AbortSignal): Promise<boolean>;
  readFleetItem(key: FleetItemKey, signal: AbortSignal): Promise<FleetItemRow | undefined>;
  /** Adds to the number of reads that readers tell of. Approximate: a write whose answer is lost may count twice. */
  countFleetReads(pool: PoolAddress, reads: number, signal: AbortSignal): Promise<void>;
  fleetReads(pool: PoolAddress, signal: AbortSignal): Promise<number>;

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
export class RouterStateError extends Error {
  override readonly name = 'RouterStateError';
  readonly code: RouterStateErrorCode;

  constructor(code: RouterStateErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
