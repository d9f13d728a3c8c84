import { StoreError } from '../../discovery/index.ts';
import type { Targets } from '../types.ts';

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
  /** Process that applies it, and the time until which no other may. */
  readonly claim?: { readonly holder: string; readonly untilMs: number } | undefined;
  /** Time at which applying began. */
  readonly appliedAtMs?: number | undefined;
  /** Reason of a failure. */
  readonly problem?: string | undefined;
}

/** One tick of a law, decision or not. */
export interface TickRecord {
  readonly atMs: number;
  readonly reason: string;
  readonly figures: Readonly<Record<string, number | string>>;
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

/** Change of a decision; fields that are left out stay. */
export interface DecisionChange {
  readonly status: DecisionStatus;
  readonly claim?: DecisionRecord['claim'];
  readonly appliedAtMs?: number;
  readonly problem?: string;
}

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
   * Changes a decision if its status and claim are still those in `seen`. Returns undefined if they are not, or if it
   * may not become that.
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
   * Sets the reservation of a pool in a budget that all groups share, unless all together would then exceed `gpusMax`.
   * Lowering a reservation always succeeds. @returns whether it was set
   */
  reserve(pool: string, gpus: number, gpusMax: number, signal: AbortSignal): Promise<boolean>;
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
  may: (from: DecisionStatus, to: DecisionStatus) => boolean,
): DecisionRecord | undefined {
  if (now === undefined || now.status !== seen.status || now.claim?.holder !== seen.claim?.holder) return undefined;
  if (now.claim?.untilMs !== seen.claim?.untilMs || !may(now.status, change.status)) return undefined;
  return { ...now, ...change };
}

/** Returns whether a pool may reserve `gpus` beside the other reservations. */
export function fitsBudget(all: Reservations, pool: string, gpus: number, gpusMax: number): boolean {
  if (gpus <= (all[pool] ?? 0)) return true;
  const others = Object.entries(all).reduce((total, [name, each]) => total + (name === pool ? 0 : each), 0);
  return others + gpus <= gpusMax;
}

/**
 * States of a decision.
 *
 *     PENDING -> APPLYING -> APPLIED
 *     PENDING -> SUPERSEDED                  a newer one is there before it is applied
 *     APPLYING -> TIMED_OUT -> SUPERSEDED    the fleet did not become what was decided
 *     APPLYING -> SUPERSEDED                 a newer one is there
 *     PENDING -> REJECTED_BUDGET
 *     ADVISORY                               said, and never acted on
 */
const DECISION_STATUSES = [
  'PENDING',
  'APPLYING',
  'APPLIED',
  'SUPERSEDED',
  'TIMED_OUT',
  'REJECTED_BUDGET',
  'ADVISORY',
] as const;
export type DecisionStatus = (typeof DECISION_STATUSES)[number];

const NEXT: Readonly<Record<DecisionStatus, readonly DecisionStatus[]>> = {
  PENDING: ['APPLYING', 'SUPERSEDED', 'REJECTED_BUDGET'],
  APPLYING: ['APPLYING', 'APPLIED', 'TIMED_OUT', 'SUPERSEDED'],
  TIMED_OUT: ['SUPERSEDED'],
  APPLIED: [],
  SUPERSEDED: [],
  REJECTED_BUDGET: [],
  ADVISORY: [],
};

/**
 * Returns whether a decision may go from one status to another. A decision that is being applied may be taken up anew.
 */
export function mayBecome(from: DecisionStatus, to: DecisionStatus): boolean {
  return NEXT[from].includes(to);
}

/** Returns whether nothing is left to do for a decision. */
export function isSettled(status: DecisionStatus): boolean {
  return status !== 'PENDING' && status !== 'APPLYING';
}
