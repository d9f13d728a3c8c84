import { StoreError } from '../../discovery/index.ts';
import type { FleetSample } from '../record/fleet-sample.ts';
import type { Pool, Targets } from '../types.ts';
import { type DecisionStatus, mayBecome } from './statuses.ts';

/** Decision as a store keeps it, for a week. Times are Unix milliseconds. */
export interface DecisionRecord {
  readonly decisionId: number;
  readonly status: DecisionStatus;
  readonly targets: Targets;
  readonly previous: Targets;
  /** One sentence. */
  readonly reason: string;
  readonly isAdvisory: boolean;
  readonly configHash: string;
  readonly decidedAtMs: number;
  /** The numbers behind it, by name. */
  readonly figures: Readonly<Record<string, number | string>>;
  /** Number of changes since it was decided; left out = 0. */
  readonly revision?: number | undefined;
  /** Number of the lease under which it was changed last. */
  readonly fence?: number | undefined;
  /** Time at which applying began. */
  readonly appliedAtMs?: number | undefined;
  /** Times that it was applied again, because the fleet had become something else. */
  readonly reapplied?: number | undefined;
  /** Reason of its status, if it is not carried out. */
  readonly problem?: string | undefined;
  /** Code of the environment for that reason, such as `InsufficientInstanceCapacity`. */
  readonly code?: string | undefined;
  /** Capacity option that failed. */
  readonly option?: string | undefined;
  /** Instances that it ends. */
  readonly victims?: readonly Victim[] | undefined;
  /** The fleet as it was when the decision was changed last, in words. */
  readonly fleet?: string | undefined;
}

/** Instance that a decision ends. Stored before anything is done to it, so that a repetition ends no other one. */
export interface Victim {
  readonly instanceId: string;
  /** Uid of the instance, if its id may be that of a later one. */
  readonly uid?: string | undefined;
  readonly pool: Pool;
  readonly option: string;
  /** Time at which it was chosen. */
  readonly atMs: number;
}

/** Right of one process to act for a model. */
export interface Lease {
  readonly holder: string;
  /** Grows each time that the lease is taken. */
  readonly fence: number;
  /** Time at which it ends, by the clock of the store. */
  readonly untilMs: number;
  /** Memory of the connector; it stays when the lease ends. */
  readonly memory: Readonly<Record<string, unknown>>;
}

/** One tick of a law, decision or not. */
export interface TickRecord {
  readonly atMs: number;
  readonly reason: string;
  readonly figures: Readonly<Record<string, number | string>>;
  /** The time since the tick that was stored before. Absent in older records. */
  readonly sample?: FleetSample | undefined;
}

export interface StoredState {
  readonly version: number;
  /** State as `packState` returned it. */
  readonly state: string;
}

export interface Commit {
  /** The version that the state was read with; 0 = there was none. */
  readonly version: number;
  readonly state: string;
  readonly decision?: DecisionRecord | undefined;
  readonly tick?: TickRecord | undefined;
}

/**
 * Change of a decision. Fields that are left out stay, except problem, code and option: they belong to the status. A
 * decision that is PENDING again begins anew.
 */
export type DecisionChange = Pick<DecisionRecord, 'status'> &
  Partial<
    Pick<DecisionRecord, 'fence' | 'appliedAtMs' | 'reapplied' | 'problem' | 'code' | 'option' | 'victims' | 'fleet'>
  >;

/** GPUs that pools have reserved, by pool of a model. */
export type Reservations = Readonly<Record<string, number>>;

/** Kind of a failure: `unavailable` may pass, `misconfigured` will not by itself. */
type PlannerStoreErrorCode = 'unavailable' | 'misconfigured';

/** A failure of a planner's store, in one line that says what to do. */
export class PlannerStoreError extends StoreError<PlannerStoreErrorCode> {
  override readonly name = 'PlannerStoreError';
}

/**
 * Store of the states and decisions of planners. `group` names a model, as its events do. Calls reject with
 * `PlannerStoreError`, or with the signal's reason.
 */
export interface PlannerStore {
  readonly name: 'memory' | 'file' | 'dynamodb';
  readState(group: string, signal: AbortSignal): Promise<StoredState | undefined>;
  /**
   * Writes state, decision and tick as one: all of them, or nothing. Returns false if the state has another version, or
   * the decision's number is taken: another planner was faster. A call whose answer was lost may be repeated.
   */
  commit(group: string, commit: Commit, signal: AbortSignal): Promise<boolean>;
  /** Returns the decisions since `sinceMs`, newest first, at most `countMax`. */
  decisions(group: string, range: DecisionRange, signal: AbortSignal): Promise<readonly DecisionRecord[]>;
  decision(group: string, decisionId: number, signal: AbortSignal): Promise<DecisionRecord | undefined>;
  /** Returns the ticks since `sinceMs`, newest first, at most `countMax`. */
  ticks(group: string, range: DecisionRange, signal: AbortSignal): Promise<readonly TickRecord[]>;
  /**
   * Changes a decision if it is still as in `seen`. Returns undefined if it is not, if it may not become that, or if a
   * later lease has changed it.
   */
  move(
    group: string,
    seen: DecisionRecord,
    change: DecisionChange,
    signal: AbortSignal,
  ): Promise<DecisionRecord | undefined>;
  /**
   * Notes `scaled_decision_id`, the newest decision that the environment has carried out. A lower number than the known
   * one changes nothing.
   */
  acknowledge(group: string, decisionId: number, signal: AbortSignal): Promise<void>;
  /** -1 = none. */
  acknowledged(group: string, signal: AbortSignal): Promise<number>;
  /**
   * Takes the lease of a model for `ms` milliseconds, if no other process holds it. Returns undefined if one does. A
   * holder that takes it again gets the next fence.
   */
  takeLease(group: string, holder: string, ms: number, signal: AbortSignal): Promise<Lease | undefined>;
  /**
   * Prolongs a lease, and stores the memory. Returns undefined if it was taken again since; then nothing changes.
   */
  renewLease(
    group: string,
    lease: Lease,
    change: { readonly ms: number; readonly memory: Lease['memory'] },
    signal: AbortSignal,
  ): Promise<Lease | undefined>;
  /** Ends a lease, unless it was taken again since. */
  releaseLease(group: string, lease: Lease, signal: AbortSignal): Promise<void>;
  /**
   * Sets the reservations of pools in a budget that all groups share, all of them or none: none if a reservation grows
   * and all together would then exceed `gpusMax`. Lowering always succeeds. @returns whether they were set
   */
  reserve(pools: Reservations, gpusMax: number, signal: AbortSignal): Promise<boolean>;
  reservations(signal: AbortSignal): Promise<Reservations>;
  /** Returns the names of the models with decisions. */
  groups(signal: AbortSignal): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface DecisionRange {
  readonly sinceMs: number;
  /** @default 1000 */
  readonly countMax?: number;
}

/** Milliseconds for which decisions and ticks are kept. */
export const KEPT_MS = 7 * 86_400_000;
export const COUNT_MAX = 1000;

/** Returns a changed decision, as every store changes it; undefined if the change is not allowed. */
export function moved(
  now: DecisionRecord | undefined,
  seen: DecisionRecord,
  change: DecisionChange,
): DecisionRecord | undefined {
  if (now === undefined || now.status !== seen.status || !mayBecome(now.status, change.status)) return undefined;
  const { revision = 0, fence = 0 } = now;
  if (revision !== (seen.revision ?? 0) || (change.fence ?? fence) < fence) return undefined;
  const { problem: _problem, code: _code, option: _option, ...kept } = now;
  const next = { ...kept, ...change, revision: revision + 1 };
  if (change.status !== 'PENDING') return next;
  const { appliedAtMs: _appliedAtMs, ...begun } = next;
  return begun;
}

/**
 * Returns a lease as `holder` takes it; undefined while another process holds it. The first fence is the time, so that
 * a lease that was lost begins above its old fences.
 */
export function takenLease(now: Lease | undefined, holder: string, ms: number, nowMs: number): Lease | undefined {
  if (now !== undefined && now.holder !== holder && now.untilMs > nowMs) return undefined;
  return { holder, fence: (now?.fence ?? Math.floor(nowMs)) + 1, untilMs: nowMs + ms, memory: now?.memory ?? {} };
}

/** Returns whether pools may reserve their GPUs beside the other reservations. */
export function fitsBudget(all: Reservations, pools: Reservations, gpusMax: number): boolean {
  if (Object.entries(pools).every(([pool, gpus]) => gpus <= (all[pool] ?? 0))) return true;
  return Object.values({ ...all, ...pools }).reduce((total, each) => total + each, 0) <= gpusMax;
}
