import { StoreError } from '../../discovery/index.ts';
import type { Targets } from '../types.ts';

/** A decision as it is kept, for a week. Times are Unix milliseconds. */
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
  /** Who applies it, and until when nobody else may. */
  readonly claim?: { readonly holder: string; readonly untilMs: number } | undefined;
  /** When it began to be applied. */
  readonly appliedAtMs?: number | undefined;
  /** Why it is what it is, where that is a failure. */
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
  /** As it was packed. */
  readonly state: string;
}

export interface Commit {
  /** The version that the state was read with; 0 = there was none. */
  readonly version: number;
  readonly state: string;
  readonly decision?: DecisionRecord | undefined;
  readonly tick?: TickRecord | undefined;
}

/** What a decision becomes; fields that are left out stay. */
export interface DecisionChange {
  readonly status: DecisionStatus;
  readonly claim?: DecisionRecord['claim'];
  readonly appliedAtMs?: number;
  readonly problem?: string;
}

/** GPUs that pools have reserved, by pool of a model. */
export type Reservations = Readonly<Record<string, number>>;

/** What went wrong: `unavailable` may pass, `misconfigured` will not by itself. */
type PlannerStoreErrorCode = 'unavailable' | 'misconfigured';

/** A failure of a planner's store, in one line that says what to do. */
export class PlannerStoreError extends StoreError<PlannerStoreErrorCode> {
  override readonly name = 'PlannerStoreError';
}

/**
 * Where planners keep what they know and what they decided. `group` names a model, as its events do. Calls reject with
 * `PlannerStoreError`, or with the signal's reason.
 */
export interface PlannerStore {
  readonly name: 'memory' | 'file' | 'dynamodb';
  readState(group: string, signal: AbortSignal): Promise<StoredState | undefined>;
  /**
   * Writes state, decision and tick as one: all of them, or nothing. False when the state has another version, or the decision's
   * number is taken: somebody else was faster. A call whose answer was lost may be repeated.
   */
  commit(group: string, commit: Commit, signal: AbortSignal): Promise<boolean>;
  /** The decisions since `sinceMs`, newest first, at most `countMax`. */
  decisions(group: string, range: DecisionRange, signal: AbortSignal): Promise<readonly DecisionRecord[]>;
  decision(group: string, decisionId: number, signal: AbortSignal): Promise<DecisionRecord | undefined>;
  /** Ticks since `sinceMs`, newest first, at most `countMax`. */
  ticks(group: string, range: DecisionRange, signal: AbortSignal): Promise<readonly TickRecord[]>;
  /**
   * Moves a decision on from the status that it was seen with, and while its claim is the one that was seen. Undefined when it is
   * not as it was seen any more, or may not become that.
   */
  move(
    group: string,
    seen: DecisionRecord,
    change: DecisionChange,
    signal: AbortSignal,
  ): Promise<DecisionRecord | undefined>;
  /** `scaled_decision_id`: the newest decision that the environment has carried out. A lower one than is known changes nothing. */
  acknowledge(group: string, decisionId: number, signal: AbortSignal): Promise<void>;
  /** -1 = none. */
  acknowledged(group: string, signal: AbortSignal): Promise<number>;
  /**
   * Sets what a pool has reserved of a budget that all groups share, unless all together would then have more than `gpusMax`;
   * lowering what one has is always granted. @returns whether it was
   */
  reserve(pool: string, gpus: number, gpusMax: number, signal: AbortSignal): Promise<boolean>;
  reservations(signal: AbortSignal): Promise<Reservations>;
  /** Names of the models that decisions are known of. */
  groups(signal: AbortSignal): Promise<readonly string[]>;
  close(): Promise<void>;
}

export interface DecisionRange {
  readonly sinceMs: number;
  /** @default 1000 */
  readonly countMax?: number;
}

/** How long decisions and ticks are kept. */
export const KEPT_MS = 7 * 86_400_000;
export const COUNT_MAX = 1000;

/** A decision moved on, as every store does it; undefined where it may not. */
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

/** Whether a pool may have `gpus`, given what all have. */
export function fitsBudget(all: Reservations, pool: string, gpus: number, gpusMax: number): boolean {
  if (gpus <= (all[pool] ?? 0)) return true;
  const others = Object.entries(all).reduce((total, [name, each]) => total + (name === pool ? 0 : each), 0);
  return others + gpus <= gpusMax;
}

/**
 * What becomes of a decision.
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

/** Whether a decision may go from one status to another; one that is being applied may be taken up anew. */
export function mayBecome(from: DecisionStatus, to: DecisionStatus): boolean {
  return NEXT[from].includes(to);
}

/** Whether nothing is left to do for it. */
export function isSettled(status: DecisionStatus): boolean {
  return status !== 'PENDING' && status !== 'APPLYING';
}
