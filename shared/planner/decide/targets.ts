import { gpusOfEngine, poolsOf } from '../laws/pools.ts';
import type { Planner } from '../planner.ts';
import type { PerPool, Pool, Targets } from '../types.ts';
import { decidedOf, type ModelState } from './model-state.ts';
import type { LawTick } from './tick-law.ts';

/** Seconds between two corrections of the same surplus. */
const CORRECT_AGAIN_S = 1800;
/** Age in seconds at which a decision is made anew: stores keep one for a week, and it must outlive its fleet. */
const RENEWED_AFTER_S = 3 * 86_400;

interface WantedTargets {
  readonly targets: Targets;
  /** Workers that serve or start now. */
  readonly previous: Targets;
  readonly reason: string;
}

/**
 * Returns targets that must be decided, and notes in `state` what they contain; undefined if the last decision holds.
 * Targets are decided if they differ from the last ones, if a fleet has stayed above them for longer than the down
 * window, and if the last decision would soon be forgotten.
 */
export function targetsOf(state: ModelState, tick: LawTick, planner: Planner): WantedTargets | undefined {
  const { effect, counts, atS } = tick;
  const replaced = replacedOf(state, tick, planner);
  const targets: Record<string, number> = {};
  for (const pool of poolsOf(planner.config)) {
    const wanted = effect.targets?.[pool] ?? decidedOf(state, pool);
    if (wanted !== undefined) targets[pool] = wanted + (replaced[pool] ?? 0);
  }
  const now = (pool: Pool): number => (counts[pool]?.ready ?? 0) + (counts[pool]?.starting ?? 0);
  const pools = Object.keys(targets) as Pool[];
  const isNew = pools.some((pool) => targets[pool] !== (state.targets[pool] ?? now(pool)));
  const surplus = pools.filter((pool) => isAbove(state, pool, now(pool), { atS, planner }));
  const isOld = state.decidedAtS !== undefined && atS - state.decidedAtS > RENEWED_AFTER_S;
  if (!isNew && surplus.length === 0 && !isOld) return undefined;
  state.replaced = replaced;
  if (isNew) state.above = {};
  const previous = Object.fromEntries(pools.map((pool) => [pool, now(pool)]));
  return { targets, previous, reason: reasonOf(tick, { isNew, surplus, replaced, before: state, now }) };
}

/** Returns the workers that may exist beside the wanted ones while others leave: as far as the GPU budget goes. */
function replacedOf(
  state: ModelState,
  { effect, leaving = {} }: LawTick,
  { config, engines }: Planner,
): PerPool<number> {
  const pools = poolsOf(config).filter((pool) => (leaving[pool] ?? 0) > 0);
  const gpus = (pool: Pool): number => gpusOfEngine(pool, engines, config);
  const wanted = (pool: Pool): number => effect.targets?.[pool] ?? decidedOf(state, pool) ?? 0;
  const used = poolsOf(config).reduce((total, pool) => total + wanted(pool) * gpus(pool), 0);
  let free = config.maxGpuBudget < 0 ? Number.POSITIVE_INFINITY : Math.max(0, config.maxGpuBudget - used);
  const replaced: Partial<Record<Pool, number>> = {};
  for (const pool of pools) {
    const count = Math.min(leaving[pool] ?? 0, wanted(pool), Math.floor(free / gpus(pool)));
    if (count === 0) continue;
    replaced[pool] = count;
    free -= count * gpus(pool);
  }
  return replaced;
}

/**
 * Returns whether a fleet that had come to its target has stayed above it for too long. A person may have changed it,
 * or workers came that were not expected any more. Notes in `state` since when.
 */
function isAbove(
  state: ModelState,
  pool: Pool,
  now: number,
  { atS, planner }: { readonly atS: number; readonly planner: Planner },
): boolean {
  const { [pool]: known, ...others } = state.above ?? {};
  const target = decidedOf(state, pool);
  if (target === undefined) return false;
  if (now <= target) {
    state.above = { ...others, [pool]: { isCorrected: false } };
    return false;
  }
  if (known === undefined) return false; // the fleet has not come down to the target yet
  const { sinceS = atS, isCorrected } = known;
  const isDue = atS - sinceS > (isCorrected ? CORRECT_AGAIN_S : planner.config.rateDownWindowSeconds);
  state.above = { ...others, [pool]: isDue ? { sinceS: atS, isCorrected: true } : { sinceS, isCorrected } };
  return isDue;
}

interface Because {
  readonly isNew: boolean;
  readonly surplus: readonly Pool[];
  readonly replaced: PerPool<number>;
  readonly before: ModelState;
  now(pool: Pool): number;
}

function reasonOf({ effect }: LawTick, { isNew, surplus, replaced, before, now }: Because): string {
  const leaving = Object.entries(replaced).map(([pool, count]) => `${count} of ${pool} on instances that end`);
  if (isNew) return leaving.length === 0 ? effect.reason : `${effect.reason}; beside ${leaving.join(' and ')}`;
  if (surplus.length === 0) return `the last decision is made anew: ${effect.reason}`;
  const above = surplus.map((pool) => `${now(pool)} of ${pool}, and ${decidedOf(before, pool)} were decided`);
  return `more workers exist than were decided: ${above.join('; ')}`;
}
