import { hasWorker } from '../signals/aggregated-keys.ts';
import type { PerPool, Pool, Targets } from '../types.ts';
import type { ModelState } from './model-state.ts';

/** Workers of a pool that serve, and that start. */
export interface WorkerCount {
  readonly ready: number;
  readonly starting: number;
  /** Starting workers whose option fails at present: nothing says that they will come. @default 0 */
  readonly failing?: number | undefined;
  /** Instances that serve, by id. @default unknown */
  readonly serving?: ReadonlySet<string> | undefined;
}

/** Workers as an environment counts them itself; a pool that is left out is counted by what was heard. */
export type CountedWorkers = PerPool<WorkerCount>;

/** Starts of which a planner knows the times before they count; until then the configured time does. */
const STARTS_MIN = 3;
/** Starts that are waited for; more than any step that a law takes at once. */
const STARTING_MAX = 1024;

/** Returns how many workers of a pool serve. */
export function readyOf(state: ModelState, pool: Pool): number {
  const { keys = [] } = state.folded[pool] ?? {};
  const aggregated = new Set(keys);
  let ready = keys.length;
  for (const [id, { isUp, instance }] of singleWorkers(state, pool)) {
    if (hasWorker(aggregated, id, instance) !== isUp) ready += isUp ? 1 : -1;
  }
  return ready;
}

interface SingleWorker {
  readonly isUp: boolean;
  readonly instance?: string | undefined;
}

/** Returns the workers that spoke for themselves by id, and whether they serve. */
export function singleWorkers({ direct, changes }: ModelState, pool: Pool): ReadonlyMap<string, SingleWorker> {
  const single = new Map<string, SingleWorker>();
  for (const [id, { pool: of, instance }] of Object.entries(direct)) {
    if (of === pool) single.set(id, { isUp: true, instance });
  }
  for (const [id, { pool: of, isUp, instance }] of Object.entries(changes)) {
    if (of === pool) single.set(id, { isUp, instance: instance ?? direct[id]?.instance });
  }
  return single;
}

/**
 * Returns the workers that were heard, and those that were decided and have not come. A start that takes twice its time
 * is forgotten: it will not come any more.
 */
export function heardCounts(state: ModelState, pool: Pool, startS: number): WorkerCount {
  const ready = readyOf(state, pool);
  const waiting = (state.starting[pool] ?? []).filter((atS) => state.nowS - atS <= 2 * startS);
  state.starting[pool] = waiting;
  return { ready, starting: waiting.length };
}

/** Returns the seconds from a decision to a worker that serves: the 90th percentile of the last starts. */
export function measuredStart({ startTimes }: ModelState): number | undefined {
  return startTimes.length < STARTS_MIN ? undefined : p90Of(startTimes);
}

/** Returns the 90th percentile; undefined without values. */
export function p90Of(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(0.9 * sorted.length))];
}

/** Notes the starts that targets mean. Targets that are lower call off the youngest starts first. */
export function noteStarts(state: ModelState, targets: Targets, counts: PerPool<WorkerCount>): void {
  for (const [name, target] of Object.entries(targets) as [Pool, number][]) {
    const waiting = state.starting[name] ?? [];
    const missing = target - (counts[name]?.ready ?? 0) - waiting.length;
    for (let at = 0; at < Math.min(missing, STARTING_MAX - waiting.length); at++) waiting.push(state.nowS);
    if (missing < 0) waiting.splice(Math.max(0, waiting.length + missing));
    state.starting[name] = waiting;
  }
}
