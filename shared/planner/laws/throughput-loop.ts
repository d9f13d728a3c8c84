import type { PlannerConfig } from '../config.ts';
import { capacityOf } from '../forward-pass/estimates.ts';
import { type PassModelState, passModel } from '../forward-pass/model.ts';
import {
  type BudgetReason,
  fitCeiling,
  type GpuBounds,
  guardSingle,
  type PoolPair,
  settlePair,
} from '../gpu-budget.ts';
import type { EngineCapabilities, PerPool, Pool, PoolCounts, Targets, ThroughputReason } from '../types.ts';
import { callOff, endpointsMinOf, kindOf, limitsOf, modelOptions, pairLimits, poolsOf } from './pools.ts';

/** Demand expected in the next window. */
export interface ExpectedDemand {
  readonly requests: number;
  readonly isl: number;
  readonly osl: number;
}

export interface ThroughputView {
  readonly config: PlannerConfig;
  readonly engines: PerPool<EngineCapabilities>;
  readonly counts: PerPool<PoolCounts>;
  readonly models: PerPool<PassModelState>;
  readonly demand: ExpectedDemand;
  readonly windowSeconds: number;
  readonly kvHitRate: number | undefined;
  readonly acceptLength: number;
  /** The load loop decides; this one only sets how many workers it must leave. */
  readonly setsFloors: boolean;
}

export interface ThroughputOutcome {
  readonly targets?: Targets | undefined;
  /** The same targets even if they equal the serving workers. */
  readonly proposed?: Targets | undefined;
  readonly floors?: PerPool<number> | undefined;
  readonly reason: ThroughputReason | undefined;
  readonly reasons: PerPool<ThroughputReason>;
  /** Requests a second that one engine serves within its targets. */
  readonly capacities: PerPool<number>;
}

/**
 * Divides the expected demand by the capacity of one engine. If the capacity of any pool is unknown, the serving
 * workers are the need: no loop takes a worker away without knowing what it serves.
 */
export function runThroughputLoop(view: ThroughputView): ThroughputOutcome {
  const { config, counts } = view;
  const pools = poolsOf(config);
  const capacities = Object.fromEntries(
    pools.flatMap((pool) => {
      const capacity = capacityOfPool(pool, view);
      return capacity === undefined ? [] : [[pool, capacity]];
    }),
  ) as PerPool<number>;
  const missing = pools.filter((pool) => capacities[pool] === undefined);
  const perSecond = view.demand.requests / view.windowSeconds;
  const enginesOf = (pool: Pool): number =>
    missing.length > 0 ? (counts[pool]?.ready ?? 0) : perSecond / capacities[pool]!;
  const wanted = Object.fromEntries(pools.map((pool) => [pool, neededOf(pool, enginesOf(pool), view)]));
  if (!view.setsFloors && pools.some((pool) => (counts[pool]?.pending ?? 0) > 0)) {
    return { ...whileStarting(view, pools, wanted, missing), capacities };
  }
  const { counts: fitted, reason } = pools.length > 1 ? fitPair(view, wanted) : fitSingle(view, pools[0]!, wanted);
  const isChanged = pools.some((pool) => fitted[pool] !== (counts[pool]?.ready ?? 0));
  const found = view.setsFloors ? { floors: fitted } : { targets: isChanged ? fitted : undefined };
  if (missing.length > 0) {
    const reasonOf = (pool: Pool): ThroughputReason =>
      missing.includes(pool) ? 'model_not_ready' : 'partner_not_ready';
    return { ...found, reason: 'model_not_ready', reasons: ofEach(pools, reasonOf), capacities };
  }
  const why = reason ?? (view.setsFloors ? 'set_lower_bound' : isChanged ? 'scale' : 'no_change');
  return { ...found, reason: why, reasons: ofEach(pools, () => why), capacities };
}

/**
 * Returns the wish while workers start: it may only ask for at most the serving workers, and an unknown capacity asks
 * for nothing.
 */
function whileStarting(
  view: ThroughputView,
  pools: readonly Pool[],
  wanted: PerPool<number>,
  missing: readonly Pool[],
): Omit<ThroughputOutcome, 'capacities'> {
  const [only, second] = pools as readonly [Pool, Pool?];
  if (missing.length > 0) {
    const reasonOf = (pool: Pool): ThroughputReason =>
      missing.includes(pool) ? 'model_not_ready' : 'partner_not_ready';
    return { reason: 'model_not_ready', reasons: ofEach(pools, reasonOf) };
  }
  if (second === undefined) {
    const { ready = 0 } = view.counts[only] ?? {};
    if ((wanted[only] ?? ready) > ready) return { reason: undefined, reasons: {} };
    const { counts } = fitSingle(view, only, wanted);
    return { proposed: counts, reason: 'scale', reasons: {} };
  }
  const proposed = callOff(wanted, view, pairLimits(view));
  return { proposed, reason: proposed === undefined ? undefined : 'scale', reasons: {} };
}

/** Returns the reason of each of two pools; a single pool has that of the loop. */
function ofEach(pools: readonly Pool[], reasonOf: (pool: Pool) => ThroughputReason): PerPool<ThroughputReason> {
  return pools.length > 1 ? Object.fromEntries(pools.map((pool) => [pool, reasonOf(pool)])) : {};
}

function capacityOfPool(pool: Pool, view: ThroughputView): number | undefined {
  const { config, demand, kvHitRate, acceptLength } = view;
  const state = view.models[pool];
  const model = state && passModel(state, modelOptions(pool, config));
  if (model === undefined || demand.isl <= 0 || demand.osl <= 0) return undefined;
  const kind = kindOf(pool, config);
  return capacityOf(kind, model, limitsOf(view.engines[pool]), {
    isl: demand.isl,
    osl: demand.osl,
    ttftSlaMs: kind === 'decode' ? undefined : config.ttftMs,
    itlSlaMs: kind === 'prefill' ? undefined : config.itlMs,
    kvHitRate: kind === 'decode' ? undefined : kvHitRate,
    acceptLength,
  })?.requestsPerSecond;
}

/** Returns the need within one step of the serving workers, and never below the minimum. */
function neededOf(pool: Pool, engines: number, { config, counts }: ThroughputView): number {
  const ready = counts[pool]?.ready ?? 0;
  const step = config.maxThroughputScalingReplicas;
  const endpointsMin = endpointsMinOf(pool, config);
  const needed = Math.max(Math.ceil(engines), endpointsMin);
  return Math.max(endpointsMin, Math.min(ready + step, Math.max(ready - step, needed)));
}

interface Fitted {
  readonly counts: PerPool<number>;
  /** Why the counts differ from the wish; undefined if a pool moves, because that is reason enough. */
  readonly reason?: BudgetReason | undefined;
}

/** Fits one pool under the ceiling. Targets, unlike floors, must also fit the whole budget. */
function fitSingle(view: ThroughputView, pool: Pool, wanted: PerPool<number>): Fitted {
  const { gpus, bounds, endpointsMin } = pairLimits(view);
  const ready = view.counts[pool]?.ready ?? 0;
  const guard = (proposal: number, within: GpuBounds) =>
    guardSingle(ready, proposal, gpus[pool], within, endpointsMin[pool]);
  const ceiling = guard(wanted[pool] ?? ready, { min: -1, max: bounds.max });
  if (view.setsFloors) {
    const isHeld = ceiling.reason === 'gpu_budget_guard_hold';
    return { counts: { [pool]: ceiling.count }, reason: isHeld ? ceiling.reason : undefined };
  }
  const { count, reason } = guard(ceiling.count, bounds);
  return { counts: { [pool]: count }, reason: count === ready ? (reason ?? ceiling.reason) : undefined };
}

/** The same for two pools. */
function fitPair(view: ThroughputView, wanted: PerPool<number>): Fitted {
  const { counts: now } = view;
  const limits = pairLimits(view);
  const ready = { prefill: now.prefill?.ready ?? 0, decode: now.decode?.ready ?? 0 };
  const pair = { prefill: wanted.prefill ?? 0, decode: wanted.decode ?? 0 };
  const isNow = ({ prefill, decode }: PoolPair): boolean => prefill === ready.prefill && decode === ready.decode;
  const ceiling = fitCeiling(ready, pair, limits);
  const held = isNow(ceiling) && !isNow(pair) ? 'gpu_budget_guard_hold' : undefined;
  if (view.setsFloors) return { counts: { ...ceiling }, reason: held };
  const { counts, reason } = settlePair(ready, ceiling, limits);
  return { counts: { ...counts }, reason: isNow(counts) ? (reason ?? held) : undefined };
}
