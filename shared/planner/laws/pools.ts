import { hasDecodePool, hasPrefillPool, type PlannerConfig } from '../config.ts';
import { ENGINE_LIMITS, type EngineLimits } from '../forward-pass/estimates.ts';
import type { PoolKind } from '../forward-pass/metrics.ts';
import type { PassModelOptions } from '../forward-pass/model.ts';
import { fitDirectional, type PairLimits } from '../gpu-budget.ts';
import {
  type EngineCapabilities,
  eachPool,
  type PerPool,
  POOLS,
  type Pool,
  type PoolCounts,
  type Targets,
} from '../types.ts';

/** Configuration of a planner and the engines of its pools. */
interface PoolView {
  readonly config: PlannerConfig;
  readonly engines: PerPool<EngineCapabilities>;
}

/** Returns the pools that a planner of this mode controls. */
export function poolsOf(config: PlannerConfig): readonly Pool[] {
  return [
    ...(hasPrefillPool(config) ? ['prefill' as const] : []),
    ...(hasDecodePool(config) ? ['decode' as const] : []),
  ];
}

/** Returns the kind of work that a pool's engines do. */
export function kindOf(pool: Pool, { mode }: PlannerConfig): PoolKind {
  return mode === 'agg' ? 'aggregated' : pool;
}

/** Returns the options of the model that learns how long the passes of a pool take. */
export function modelOptions(pool: Pool, config: PlannerConfig): PassModelOptions {
  return {
    kind: kindOf(pool, config),
    samplesMax: config.maxNumFpmSamples,
    buckets: config.fpmSampleBucketSize,
    observationsMin: config.loadMinObservations,
  };
}

/** Returns the limits of an engine; defaults stand in for those that are not known. */
export function limitsOf(engine: EngineCapabilities | undefined): EngineLimits {
  return {
    maxNumBatchedTokens: engine?.maxNumBatchedTokens ?? ENGINE_LIMITS.maxNumBatchedTokens,
    maxNumSeqs: engine?.maxNumSeqs ?? ENGINE_LIMITS.maxNumSeqs,
    maxKvTokens: engine?.maxKvTokens ?? ENGINE_LIMITS.maxKvTokens,
  };
}

/** Returns the fewest workers that a pool may have. */
export function endpointsMinOf(pool: Pool, config: PlannerConfig): number {
  return config[`${pool}MinEndpoint`] ?? config.minEndpoint;
}

/** Returns the GPUs of one worker of a pool: as its engine says, else as configured, else 1. */
export function gpusOfEngine(pool: Pool, engines: PerPool<EngineCapabilities>, config: PlannerConfig): number {
  return engines[pool]?.gpus ?? config[`${pool}EngineNumGpu`] ?? 1;
}

/** Returns the bounds of two pools together. */
export function pairLimits({ config, engines }: PoolView): PairLimits {
  return {
    gpus: eachPool((pool) => gpusOfEngine(pool, engines, config)),
    bounds: { min: config.minGpuBudget, max: config.maxGpuBudget },
    endpointsMin: eachPool((pool) => endpointsMinOf(pool, config)),
  };
}

/** Returns whether an earlier decision is still being carried out, as far as the environment says. */
export function isScaling(counts: PoolCounts | undefined): boolean {
  if (counts === undefined || (counts.pending ?? 0) > 0) return false;
  return counts.isScaling === true || (counts.expected !== undefined && counts.expected !== counts.ready);
}

/**
 * Returns the part of a wish that may call off starting workers: at most the serving workers, and fewer than there will
 * be. A pool without such a wish keeps its serving and starting workers. The GPU floor holds without tolerance.
 */
export function callOff(
  least: PerPool<number>,
  { counts }: { readonly counts: PerPool<PoolCounts> },
  limits: PairLimits,
): Targets | undefined {
  const of = (pool: Pool) => ({ ready: counts[pool]?.ready ?? 0, pending: counts[pool]?.pending ?? 0 });
  const reduced = (wanted: PerPool<number>): PerPool<number> =>
    Object.fromEntries(
      POOLS.flatMap((pool) => {
        const { ready, pending } = of(pool);
        const count = wanted[pool];
        return count === undefined || count > ready || count >= ready + pending ? [] : [[pool, count]];
      }),
    );
  const targets = reduced(least);
  const kept = (pool: Pool): number => of(pool).ready + (targets[pool] === undefined ? of(pool).pending : 0);
  const current = { prefill: kept('prefill'), decode: kept('decode') };
  const floor = { ...limits, bounds: { min: limits.bounds.min, max: -1 } };
  const fitted = fitDirectional(current, { ...current, ...targets }, floor);
  const found = reduced(
    Object.fromEntries(POOLS.flatMap((pool) => (targets[pool] === undefined ? [] : [[pool, fitted[pool]]]))),
  );
  return Object.keys(found).length === 0 ? undefined : found;
}
