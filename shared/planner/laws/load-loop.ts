import { type PlannerConfig, runsThroughputLoop } from '../config.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { type PassModel, type PassModelState, passModel } from '../forward-pass/model.ts';
import { fitCeiling, guardSingle, settlePair } from '../gpu-budget.ts';
import {
  type EngineCapabilities,
  eachPool,
  type LoadReason,
  type PerPool,
  POOLS,
  type Pool,
  type PoolCounts,
  type Targets,
} from '../types.ts';
import { byItl, byThresholds, byTtft, type LatencyView, type PoolWish } from './pool-wishes.ts';
import { callOff, endpointsMinOf, isScaling, limitsOf, modelOptions, pairLimits, poolsOf } from './pools.ts';

/** Input of the load loop at a tick. */
export interface LoadView {
  readonly config: PlannerConfig;
  readonly engines: PerPool<EngineCapabilities>;
  readonly counts: PerPool<PoolCounts>;
  readonly passes: PerPool<readonly ForwardPass[]>;
  readonly models: PerPool<PassModelState>;
  readonly kvHitRate: number | undefined;
  readonly acceptLength: number;
  /** Least workers, as the throughput loop found. */
  readonly floors: PerPool<number>;
}

export interface LoadOutcome {
  readonly targets?: Targets | undefined;
  /** The same targets even if they equal the serving workers: a loop has run, and asks for them. */
  readonly proposed?: Targets | undefined;
  readonly reason: LoadReason | undefined;
  /** Reasons of two pools, each its own. */
  readonly reasons: PerPool<LoadReason>;
  readonly estimatedTtftMs?: number | undefined;
  readonly estimatedItlMs?: number | undefined;
}

/** Moves each pool by at most one worker, according to the present load of its engines; a floor may move it further. */
export function runLoadLoop(view: LoadView): LoadOutcome {
  const pools = poolsOf(view.config);
  const closed = gateOf(view, pools);
  if (closed !== undefined) {
    const reasons = pools.length > 1 ? Object.fromEntries(pools.map((pool) => [pool, closed])) : {};
    return { reason: closed, reasons };
  }
  if (view.config.mode === 'agg' && view.config.law === 'sla' && modelOf('decode', view) === undefined) {
    // Without a model, not even the floor counts for an aggregated pool.
    return { reason: 'insufficient_data', reasons: {} };
  }
  const found = new Map(pools.map((pool) => [pool, wishOf(pool, view)]));
  const estimates = {
    estimatedTtftMs: [...found.values()].find(({ ttftMs }) => ttftMs !== undefined)?.ttftMs,
    estimatedItlMs: [...found.values()].find(({ itlMs }) => itlMs !== undefined)?.itlMs,
  };
  const [first, second] = pools as readonly [Pool, Pool?];
  const wish = found.get(first)!.wish; // one for each pool
  const outcome =
    second !== undefined ? decidePair(view, wish, found.get(second)!.wish) : decideSingle(view, first, wish);
  return { ...outcome, ...estimates };
}

/** Returns why no pool can be judged now; undefined if it can. */
function gateOf(view: LoadView, pools: readonly Pool[]): LoadReason | undefined {
  const hasPasses = pools.some((pool) => (view.passes[pool]?.length ?? 0) > 0);
  const isBusy = !isStarting(view) && pools.some((pool) => isScaling(view.counts[pool]));
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

/** Returns whether the reporting workers are not the ready ones, or have different numbers of ranks. */
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
  if (passes.length === 0) return { wish: {} }; // the other pool has some
  const pending = view.counts[pool]?.pending ?? 0;
  const seen = { workers, pending, passes, config, endpointsMin: endpointsMinOf(pool, config) };
  if (config.law !== 'sla') return { wish: byThresholds(pool, seen, engines[pool]) };
  const model = modelOf(pool, view);
  if (model === undefined || workers === 0) return { wish: { reason: 'insufficient_data' } };
  const latencies: LatencyView = {
    ...seen,
    model,
    limits: limitsOf(engines[pool]),
    kvHitRate: view.kvHitRate,
    acceptLength: view.acceptLength,
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
  const { workers } = view;
  const [prefill, decode] = [byTtft(view), byItl(view)];
  const estimates = { ttftMs: prefill.estimatedMs, itlMs: decode.estimatedMs };
  const isRefused = [prefill, decode].some(({ wish }) => wish.reason === REFUSED);
  // A side that refuses counts as wishing no change; one without a wish leaves the choice to the other.
  const [p, d] = [prefill, decode].map(({ wish }) => (wish.reason === REFUSED ? workers : wish.count));
  const down = (count: number | undefined): count is number => count !== undefined && count < workers;
  // While workers start, two sides that need at most the serving workers are a wish too: starts can be called off.
  const isWish = view.pending > 0 && p !== undefined && d !== undefined && p <= workers && d <= workers;
  let count = workers;
  if (p !== undefined && p > workers) count = p;
  else if (d !== undefined && d > workers) count = d;
  else if (p === undefined && down(d)) count = d;
  else if (down(p) && down(d)) count = Math.max(p, d);
  return { wish: { count, reason: isRefused ? REFUSED : isWish ? undefined : 'no_change' }, ...estimates };
}

const REFUSED = 'scale_down_refused_consolidation';

/** Returns the floor of the throughput loop; 0 if it does not run. */
function floorOf(pool: Pool, { floors, config }: LoadView): number {
  return runsThroughputLoop(config) ? (floors[pool] ?? 1) : 0;
}

function decideSingle(view: LoadView, pool: Pool, wish: PoolWish): LoadOutcome {
  const isAggregated = view.config.mode === 'agg';
  if (isAggregated && wish.count === undefined) return { reason: wish.reason, reasons: {} };
  const { ready = 0, pending = 0 } = view.counts[pool] ?? {};
  const asked = wish.count ?? ready;
  if (isStarting(view) && asked > ready) return { reason: wish.reason === REFUSED ? REFUSED : undefined, reasons: {} };
  const least = Math.max(asked, endpointsMinOf(pool, view.config));
  const { gpus, bounds, endpointsMin } = pairLimits(view);
  const wanted = Math.max(least, floorOf(pool, view));
  const { count, reason: budget } = guardSingle(ready, wanted, gpus[pool], bounds, endpointsMin[pool]);
  // For an aggregated pool, workers that its minimum adds count as a floor too.
  const isLifted = count > (isAggregated ? asked : least);
  const isQuiet = count === ready && wish.reason !== undefined; // it has said why it stays
  if (isQuiet) {
    const why = isLifted ? CAPPED : wish.reason;
    return { reason: budget ?? why, reasons: {}, ...(budget !== undefined && { proposed: { [pool]: count } }) };
  }
  const direction = count < ready + pending ? 'scale_down' : count > ready ? 'scale_up' : 'no_change';
  return {
    targets: count === ready ? undefined : { [pool]: count },
    proposed: { [pool]: count },
    reason: budget ?? (direction === 'scale_down' && isLifted ? CAPPED : direction),
    reasons: {},
  };
}

const CAPPED = 'scale_down_capped_by_throughput';

function isStarting({ counts }: Pick<LoadView, 'counts'>): boolean {
  return Object.values(counts).some(({ pending = 0 }) => pending > 0);
}

function decidePair(view: LoadView, prefill: PoolWish, decode: PoolWish): LoadOutcome {
  const wishes = { prefill, decode };
  const ready = eachPool((pool) => view.counts[pool]?.ready ?? 0);
  const limits = pairLimits(view);
  const asked = eachPool((pool) => wishes[pool].count ?? ready[pool]);
  const lifted = eachPool((pool) => Math.max(asked[pool], floorOf(pool, view)));
  const least = eachPool((pool) => Math.max(lifted[pool], limits.endpointsMin[pool]));
  if (isStarting(view)) {
    const isDown = (pool: Pool): boolean => (wishes[pool].count ?? Number.POSITIVE_INFINITY) <= ready[pool];
    const wanted = Object.fromEntries(POOLS.flatMap((pool) => (isDown(pool) ? [[pool, least[pool]]] : [])));
    const proposed = callOff(wanted, view, limits);
    const last = view.passes.decode !== undefined && view.passes.decode.length > 0 ? decode : prefill;
    return { proposed, reason: proposed === undefined ? last.reason : 'scale_down', reasons: {} };
  }
  const isLifted = lifted.prefill > asked.prefill || lifted.decode > asked.decode;
  const { counts, reason: budget } = settlePair(ready, isLifted ? fitCeiling(ready, least, limits) : least, limits);
  const reasonOf = (pool: Pool): LoadReason => {
    if (counts[pool] > ready[pool]) return 'scale_up';
    if (lifted[pool] > asked[pool] && asked[pool] < ready[pool]) return CAPPED;
    return counts[pool] < ready[pool] ? 'scale_down' : 'no_change';
  };
  const reasons = { prefill: reasonOf('prefill'), decode: reasonOf('decode') };
  if (counts.prefill !== ready.prefill || counts.decode !== ready.decode) {
    return { targets: counts, proposed: counts, reason: budget ?? strongest(reasons), reasons };
  }
  // Nothing moves: a pool's own reason says more than that it stays.
  const told = (pool: Pool): LoadReason | undefined =>
    wishes[pool].reason === 'no_change' ? undefined : wishes[pool].reason;
  return {
    reason: budget ?? told('prefill') ?? told('decode') ?? strongest(reasons),
    reasons: { prefill: told('prefill') ?? reasons.prefill, decode: told('decode') ?? reasons.decode },
  };
}

const STRENGTHS: readonly LoadReason[] = ['scale_up', CAPPED, 'scale_down'];

/** Returns the reason of the pool that moved most. */
function strongest({ prefill, decode }: Readonly<Record<Pool, LoadReason>>): LoadReason {
  return STRENGTHS.find((reason) => reason === prefill || reason === decode) ?? 'no_change';
}
