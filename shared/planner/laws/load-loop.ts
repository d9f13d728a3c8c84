import { hasDecodePool, hasPrefillPool, type PlannerConfig } from '../config.ts';
import { ENGINE_LIMITS, type EngineLimits } from '../forward-pass/estimates.ts';
import type { ForwardPass, PoolKind } from '../forward-pass/metrics.ts';
import { type PassModel, type PassModelOptions, type PassModelState, passModel } from '../forward-pass/model.ts';
import { clampPair, guardPair, guardSingle, type PairLimits } from '../gpu-budget.ts';
import type { EngineCapabilities, LoadReason, PerPool, Pool, PoolCounts, Targets } from '../types.ts';
import { byItl, byThresholds, byTtft, type LatencyView, type PoolWish } from './pool-wishes.ts';

/** What the load loop knows at a tick. */
export interface LoadView {
  readonly config: PlannerConfig;
  readonly engines: PerPool<EngineCapabilities>;
  readonly counts: PerPool<PoolCounts>;
  readonly passes: PerPool<readonly ForwardPass[]>;
  readonly models: PerPool<PassModelState>;
  readonly kvHitRate: number | undefined;
  readonly acceptLength: number;
  /** What the throughput loop found necessary. */
  readonly floors: PerPool<number>;
}

export interface LoadOutcome {
  readonly targets?: Targets | undefined;
  readonly reason: LoadReason | undefined;
  /** Of two pools, each its own. */
  readonly reasons: PerPool<LoadReason>;
  readonly estimatedTtftMs?: number | undefined;
  readonly estimatedItlMs?: number | undefined;
}

export function poolsOf(config: PlannerConfig): readonly Pool[] {
  return [
    ...(hasPrefillPool(config) ? ['prefill' as const] : []),
    ...(hasDecodePool(config) ? ['decode' as const] : []),
  ];
}

export function kindOf(pool: Pool, { mode }: PlannerConfig): PoolKind {
  return mode === 'agg' ? 'aggregated' : pool;
}

export function modelOptions(pool: Pool, config: PlannerConfig): PassModelOptions {
  return {
    kind: kindOf(pool, config),
    samplesMax: config.max_num_fpm_samples,
    buckets: config.fpm_sample_bucket_size,
    observationsMin: config.load_min_observations,
  };
}

export function limitsOf(engine: EngineCapabilities | undefined): EngineLimits {
  return {
    maxNumBatchedTokens: engine?.maxNumBatchedTokens ?? ENGINE_LIMITS.maxNumBatchedTokens,
    maxNumSeqs: engine?.maxNumSeqs ?? ENGINE_LIMITS.maxNumSeqs,
    maxKvTokens: engine?.maxKvTokens ?? ENGINE_LIMITS.maxKvTokens,
  };
}

export function endpointsMinOf(pool: Pool, config: PlannerConfig): number {
  return config[`${pool}_min_endpoint`] ?? config.min_endpoint;
}

export function gpusOfEngine(pool: Pool, engines: PerPool<EngineCapabilities>, config: PlannerConfig): number {
  return engines[pool]?.gpus ?? config[`${pool}_engine_num_gpu`] ?? 1;
}

/** Bounds of two pools together. */
export function pairLimits({ config, engines }: Pick<LoadView, 'config' | 'engines'>): PairLimits {
  const each = (read: (pool: Pool) => number) => ({ prefill: read('prefill'), decode: read('decode') });
  return {
    gpus: each((pool) => gpusOfEngine(pool, engines, config)),
    bounds: { min: config.min_gpu_budget, max: config.max_gpu_budget },
    endpointsMin: each((pool) => endpointsMinOf(pool, config)),
  };
}

/** Looks at what the engines do now and moves each pool by at most one worker, floors aside. */
export function runLoadLoop(view: LoadView): LoadOutcome {
  const pools = poolsOf(view.config);
  const closed = gateOf(view, pools);
  if (closed !== undefined) {
    const reasons = pools.length > 1 ? Object.fromEntries(pools.map((pool) => [pool, closed])) : {};
    return { reason: closed, reasons };
  }
  if (view.config.mode === 'agg' && view.config.law === 'sla' && modelOf('decode', view) === undefined) {
    return { reason: 'insufficient_data', reasons: {} }; // of one pool that does both, not even the floor is looked at
  }
  const found = new Map(pools.map((pool) => [pool, wishOf(pool, view)]));
  const estimates = {
    estimatedTtftMs: [...found.values()].find(({ ttftMs }) => ttftMs !== undefined)?.ttftMs,
    estimatedItlMs: [...found.values()].find(({ itlMs }) => itlMs !== undefined)?.itlMs,
  };
  const floored = new Map([...found].map(([pool, { wish }]) => [pool, withFloor(pool, wish, view)]));
  const outcome = pools.length > 1 ? decidePair(view, floored) : decideSingle(view, pools[0]!, floored.get(pools[0]!)!);
  return { ...outcome, ...estimates };
}

/** Why nothing can be said of any pool now. */
function gateOf(view: LoadView, pools: readonly Pool[]): LoadReason | undefined {
  const hasPasses = pools.some((pool) => (view.passes[pool]?.length ?? 0) > 0);
  const isBusy = pools.some((pool) => isScaling(view.counts[pool]));
  const isOdd = pools.some((pool) => disagrees(view.passes[pool] ?? [], view.counts[pool]));
  const gates: readonly (readonly [boolean, LoadReason])[] =
    view.config.mode === 'disagg' || view.config.mode === 'agg'
      ? [
          [!hasPasses, 'no_fpm_data'],
          [isBusy, 'scaling_in_progress'],
        ]
      : [
          [isBusy, 'scaling_in_progress'],
          [!hasPasses, 'no_fpm_data'],
        ];
  const [, reason] = [...gates, [isOdd, 'worker_count_mismatch'] as const].find(([isClosed]) => isClosed) ?? [];
  return reason;
}

/** Whether what was decided is still to come, as far as the environment says. */
export function isScaling(counts: PoolCounts | undefined): boolean {
  if (counts === undefined || (counts.pending ?? 0) > 0) return false;
  return counts.isScaling === true || (counts.expected !== undefined && counts.expected !== counts.ready);
}

/** Other workers report than are ready, or with different numbers of ranks. */
function disagrees(passes: readonly ForwardPass[], counts: PoolCounts | undefined): boolean {
  if (passes.length === 0) return false;
  const ranks = new Map<string, number>();
  for (const { workerId } of passes) ranks.set(workerId, (ranks.get(workerId) ?? 0) + 1);
  return (counts !== undefined && ranks.size !== counts.ready) || new Set(ranks.values()).size > 1;
}

interface Found {
  readonly wish: PoolWish;
  readonly ttftMs?: number | undefined;
  readonly itlMs?: number | undefined;
}

function wishOf(pool: Pool, view: LoadView): Found {
  const { config, engines, passes: all } = view;
  const passes = all[pool] ?? [];
  const workers = view.counts[pool]?.ready ?? 0;
  const endpointsMin = endpointsMinOf(pool, config);
  if (passes.length === 0) return { wish: { count: workers, reason: 'no_change' } }; // the other pool has some
  if (config.law !== 'sla') return { wish: byThresholds(pool, workers, passes, engines[pool], config, endpointsMin) };
  const model = modelOf(pool, view);
  if (model === undefined || workers === 0) return { wish: { count: workers, reason: 'insufficient_data' } };
  const latencies: LatencyView = {
    workers,
    passes,
    model,
    limits: limitsOf(engines[pool]),
    config,
    kvHitRate: view.kvHitRate,
    acceptLength: view.acceptLength,
    endpointsMin,
  };
  if (config.mode === 'agg') return bothSides(latencies);
  if (pool === 'prefill') {
    const { wish, estimatedMs } = byTtft(latencies);
    return { wish, ttftMs: estimatedMs };
  }
  const { wish, estimatedMs } = byItl(latencies);
  return { wish, itlMs: estimatedMs };
}

function modelOf(pool: Pool, { models, config }: LoadView): PassModel | undefined {
  const state = models[pool];
  return state && passModel(state, modelOptions(pool, config));
}

/** An engine that does both needs room for both: either side may ask for a worker, both must do without one. */
function bothSides(view: LatencyView): Found {
  const [prefill, decode] = [byTtft(view), byItl(view)];
  const estimates = { ttftMs: prefill.estimatedMs, itlMs: decode.estimatedMs };
  const pick = (wish: PoolWish): Found => ({ wish, ...estimates });
  if (prefill.wish.reason === 'scale_up') return pick(prefill.wish);
  if (decode.wish.reason === 'scale_up') return pick(decode.wish);
  if (prefill.wish.reason === 'insufficient_data' && decode.wish.reason === 'scale_down') return pick(decode.wish);
  if (prefill.wish.reason === 'scale_down' && decode.wish.reason === 'scale_down') {
    return pick(prefill.wish.count >= decode.wish.count ? prefill.wish : decode.wish);
  }
  const refused = [prefill.wish, decode.wish].find(({ reason }) => reason === 'scale_down_refused_consolidation');
  if (refused !== undefined) return pick(refused);
  return pick({ count: view.workers, reason: 'no_change' });
}

function withFloor(pool: Pool, wish: PoolWish, { floors, counts, config }: LoadView): PoolWish {
  const ready = counts[pool]?.ready ?? 0;
  const floor = Math.max(floors[pool] ?? 0, endpointsMinOf(pool, config));
  if (wish.count >= floor) return wish;
  if (floor > ready) return { count: floor, reason: 'scale_up' };
  if (floor < ready) return { count: floor, reason: 'scale_down' };
  return { count: floor, reason: wish.reason === 'scale_down' ? 'scale_down_capped_by_throughput' : wish.reason };
}

function decideSingle(view: LoadView, pool: Pool, wish: PoolWish): LoadOutcome {
  const ready = view.counts[pool]?.ready ?? 0;
  const { gpus, bounds, endpointsMin } = pairLimits(view);
  const { count, reason } = guardSingle(ready, wish.count, gpus[pool], bounds, endpointsMin[pool]);
  const targets = count === ready ? undefined : { [pool]: count };
  return { targets, reason: reason ?? wish.reason, reasons: {} };
}

function decidePair(view: LoadView, wishes: ReadonlyMap<Pool, PoolWish>): LoadOutcome {
  const ready = { prefill: view.counts.prefill?.ready ?? 0, decode: view.counts.decode?.ready ?? 0 };
  const wanted = { prefill: wishes.get('prefill')!.count, decode: wishes.get('decode')!.count };
  const limits = pairLimits(view);
  const guarded = guardPair(ready, wanted, limits);
  const counts = guarded.reason === undefined ? clampPair(guarded.counts, limits) : guarded.counts;
  const isChanged = counts.prefill !== ready.prefill || counts.decode !== ready.decode;
  const reasonOf = (pool: Pool): LoadReason => {
    const wish = wishes.get(pool)!;
    const isKept = counts[pool] === ready[pool];
    // Why a pool stays is of interest only where the other does not move.
    if (isKept && isChanged && !STRENGTHS.includes(wish.reason)) return 'no_change';
    if (counts[pool] === wish.count) return wish.reason;
    if (isKept) return 'no_change';
    return counts[pool] > ready[pool] ? 'scale_up' : 'scale_down';
  };
  const reasons = { prefill: reasonOf('prefill'), decode: reasonOf('decode') };
  return {
    targets: isChanged ? counts : undefined,
    reason: guarded.reason ?? strongest([reasons.prefill, reasons.decode]),
    reasons,
  };
}

const STRENGTHS: readonly LoadReason[] = ['scale_up', 'scale_down_capped_by_throughput', 'scale_down'];

/** Of two pools that which moved most; where none did, what says more than that. */
function strongest(reasons: readonly LoadReason[]): LoadReason {
  return (
    STRENGTHS.find((reason) => reasons.includes(reason)) ??
    reasons.find((reason) => reason !== 'no_change') ??
    'no_change'
  );
}
