import { instanceKey, instanceKeyOf, type PlannerEventOf, workerKey } from '../../protocol/index.ts';
import type { Pool } from '../types.ts';
import { type Interruption, type ModelState, poolOf } from './model-state.ts';
import { singleWorkers } from './worker-counts.ts';

/** Interruptions that are remembered; the oldest goes first. */
const INTERRUPTIONS_MAX = 256;
/** Seconds for which an instance is still there after its end was due: it shuts down. */
const ENDING_S = 60;
/** Seconds from a spot notice to the end of the instance. */
const NOTICE_S = 120;
/** Longest drain of an instance whose end has begun. */
const TERMINATION_S = 900;
/** Seconds after which an instance that may end is no longer expected to. */
const FORGOTTEN_S = 6 * 3600;
/** Seconds for which an instance without workers counts: a roll-up may have missed them. */
const EMPTY_S = 30;

/** Workers of a pool on interrupted instances. */
export interface LeavingWorkers {
  /** Serve still, and count as gone. */
  readonly up: number;
  /** Count as gone while an environment still lists their instances as serving. */
  readonly listed: number;
  /** Must exist beside the wanted ones, until their instances have gone. */
  readonly replaced: number;
}

/** Applies the news of an interruption. An instance whose end is certain replaces a mere recommendation. */
export function noteInterruption(
  state: ModelState,
  { instance_id: id, kind, component, at, deadline_at: deadlineAt }: PlannerEventOf<'capacity.interrupt'>,
  sentAtS: number,
): void {
  const known = state.interruptions?.[id];
  if (known !== undefined && kind === 'rebalance') return;
  const pool = poolOf(component);
  const deadlineAtS = deadlineAt === undefined ? undefined : sentAtS + (deadlineAt - at) / 1000;
  const workers = Math.max(known?.workers ?? 0, countWorkers(state, pool).get(instanceKey(id)) ?? 0);
  const entry = { pool, kind, atS: known?.atS ?? state.nowS, deadlineAtS: deadlineAtS ?? known?.deadlineAtS, workers };
  const { [id]: _, ...others } = state.interruptions ?? {};
  const kept = Object.entries(others).slice(-(INTERRUPTIONS_MAX - 1));
  state.interruptions = { ...Object.fromEntries(kept), [id]: entry };
  state.isUrgent = true;
}

/** Forgets instances that have gone, and notes how many workers the others have. */
export function settleInterruptions(state: ModelState): void {
  const { interruptions = {}, nowS } = state;
  if (Object.keys(interruptions).length === 0) return;
  const counts = { prefill: countWorkers(state, 'prefill'), decode: countWorkers(state, 'decode') };
  const kept: Record<string, Interruption> = {};
  for (const [id, entry] of Object.entries(interruptions)) {
    const up = counts[entry.pool].get(instanceKey(id)) ?? 0;
    const emptyAtS = up > 0 ? undefined : (entry.emptyAtS ?? nowS);
    if (isOver(entry, emptyAtS, nowS)) continue;
    kept[id] = { ...entry, workers: Math.max(entry.workers, up), emptyAtS };
  }
  state.interruptions = kept;
}

function isOver({ kind, atS, deadlineAtS }: Interruption, emptyAtS: number | undefined, nowS: number): boolean {
  const isEmpty = emptyAtS !== undefined && nowS - emptyAtS > EMPTY_S;
  switch (kind) {
    case 'spot-warning':
      return nowS > (deadlineAtS ?? atS + NOTICE_S) + ENDING_S;
    case 'termination':
      return isEmpty || nowS > (deadlineAtS ?? atS + TERMINATION_S) + ENDING_S;
    case 'block-end':
    case 'retirement':
      return isEmpty || nowS > (deadlineAtS ?? atS + FORGOTTEN_S) + ENDING_S;
    case 'rebalance':
      return isEmpty || nowS - atS > FORGOTTEN_S;
  }
}

/**
 * Counts the workers of a pool that leave. Those of a spot notice, and of an instance whose end has begun, count as
 * gone at once. Those of an end that is known long before count as gone once a start takes until then. Those of a
 * rebalance recommendation serve on, and one more is wanted for each.
 * @param serving instances that the environment lists as serving, if it says so
 */
export function leavingOf(
  state: ModelState,
  pool: Pool,
  startS: number,
  serving: ReadonlySet<string> | undefined,
): LeavingWorkers {
  const own = Object.entries(state.interruptions ?? {}).filter(([, entry]) => entry.pool === pool);
  if (own.length === 0) return { up: 0, listed: 0, replaced: 0 };
  const counts = countWorkers(state, pool);
  let [up, listed, replaced] = [0, 0, 0];
  for (const [id, entry] of own) {
    const now = counts.get(instanceKey(id)) ?? 0;
    const isListed = serving?.has(id) ?? true;
    if (entry.kind === 'rebalance' && isListed) {
      replaced += now;
      continue;
    }
    if (!isNear(entry, state.nowS, startS)) continue;
    up += now;
    // What replaces an instance that its environment lists as ending, or not at all, is decided already.
    if (entry.kind === 'termination' || !isListed) continue;
    listed += entry.workers;
    replaced += entry.workers;
  }
  return { up, listed, replaced };
}

function isNear({ kind, deadlineAtS }: Interruption, nowS: number, startS: number): boolean {
  if (kind === 'spot-warning' || kind === 'termination') return true;
  return deadlineAtS === undefined || nowS >= deadlineAtS - Math.max(NOTICE_S, 2 * startS);
}

/** Counts the serving workers of a pool by the `instanceKey` of their instances. */
function countWorkers(state: ModelState, pool: Pool): ReadonlyMap<number, number> {
  const keys = new Set(state.folded[pool]?.keys);
  for (const [id, { isUp, instance }] of singleWorkers(state, pool)) {
    if (instance === undefined) continue;
    if (isUp) keys.add(workerKey(id, instance));
    else keys.delete(workerKey(id, instance));
  }
  const counts = new Map<number, number>();
  for (const key of keys) {
    const instance = instanceKeyOf(key);
    if (instance !== undefined) counts.set(instance, (counts.get(instance) ?? 0) + 1);
  }
  return counts;
}
