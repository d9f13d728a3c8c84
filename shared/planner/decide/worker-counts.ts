import { workerKey } from '../../protocol/index.ts';
import type { PerPool, Pool, Targets } from '../types.ts';
import type { ModelState } from './model-state.ts';

/** Workers of a pool that serve, and that start. */
export interface WorkerCount {
  readonly ready: number;
  readonly starting: number;
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
  const single = new Map<string, boolean>(); // of workers that spoke for themselves: whether they serve
  for (const [id, worker] of Object.entries(state.direct)) if (worker.pool === pool) single.set(id, true);
  for (const [id, change] of Object.entries(state.changes)) if (change.pool === pool) single.set(id, change.isUp);
  let ready = keys.length;
  for (const [id, isUp] of single) {
    if (aggregated.has(workerKey(id)) !== isUp) ready += isUp ? 1 : -1;
  }
  return ready;
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
  if (startTimes.length < STARTS_MIN) return undefined;
  const sorted = startTimes.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(0.9 * sorted.length))];
}

/** Notes the starts that new targets mean. Targets that are lower call off the youngest starts first. */
export function noteStarts(state: ModelState, targets: Targets): void {
  for (const [name, target] of Object.entries(targets) as [Pool, number][]) {
    const waiting = state.starting[name] ?? [];
    const missing = target - readyOf(state, name) - waiting.length;
    for (let at = 0; at < Math.min(missing, STARTING_MAX - waiting.length); at++) waiting.push(state.nowS);
    if (missing < 0) waiting.splice(Math.max(0, waiting.length + missing));
    state.starting[name] = waiting;
  }
}
