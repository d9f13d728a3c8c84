import type { PlannerConfig } from '../config.ts';
import { clampPair, clampSingle, fitsBudget } from '../gpu-budget.ts';
import type { EngineCapabilities, PerPool, PoolCounts, Targets } from '../types.ts';
import { isScaling, pairLimits, poolsOf } from './pools.ts';

/** Bound that a fleet had left. */
export type Invariant = 'minimum' | 'budget';

interface Kept {
  readonly targets?: Targets | undefined;
  /** Counts of every pool if a bound was kept: each may have to yield to other bounds. */
  readonly asked?: Targets | undefined;
  readonly kept?: Invariant | undefined;
}

/**
 * Brings back a pool below its minimum and a fleet outside its GPU budget, once nothing is under way. This holds even
 * if the loops decide nothing, as when all workers are lost and none reports passes any more.
 */
export function keepInvariants(
  targets: Targets | undefined,
  counts: PerPool<PoolCounts>,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
): Kept {
  const pools = poolsOf(config);
  if (pools.some((pool) => counts[pool] === undefined || isUnderWay(counts[pool]))) return { targets };
  const ready = { prefill: counts.prefill?.ready ?? 0, decode: counts.decode?.ready ?? 0 };
  const limits = pairLimits({ config, engines });
  const { gpus, bounds, endpointsMin } = limits;
  const short = pools.filter((pool) => ready[pool] < endpointsMin[pool]);
  const total = pools.reduce((sum, pool) => sum + ready[pool] * gpus[pool], 0);
  const isFitting = fitsBudget(total, Math.max(...pools.map((pool) => gpus[pool])), bounds);
  if (short.length === 0 && isFitting) return { targets };
  const wanted = { ...ready };
  for (const pool of pools) wanted[pool] = Math.max(targets?.[pool] ?? ready[pool], endpointsMin[pool]);
  const [only, second] = pools;
  const fitted =
    second === undefined
      ? { ...ready, [only!]: clampSingle(wanted[only!], gpus[only!], bounds, endpointsMin[only!]) }
      : clampPair(wanted, limits);
  if (pools.every((pool) => fitted[pool] === ready[pool])) return {};
  const asked = Object.fromEntries(pools.map((pool) => [pool, fitted[pool]]));
  if (short.length === 0) return { targets: asked, asked, kept: 'budget' };
  // A pool that does not move is not named: it is not the one that is short.
  const told = pools.filter((pool) => fitted[pool] !== ready[pool] || targets?.[pool] !== undefined);
  return { targets: Object.fromEntries(told.map((pool) => [pool, fitted[pool]])), asked, kept: 'minimum' };
}

function isUnderWay(counts: PoolCounts): boolean {
  return isScaling(counts) || (counts.pending ?? 0) > 0 || (counts.starting ?? 0) > 0;
}
