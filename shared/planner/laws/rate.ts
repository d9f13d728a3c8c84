import type { PlannerConfig } from '../config.ts';
import { capacityOf } from '../forward-pass/estimates.ts';
import { type PassModelState, passModel } from '../forward-pass/model.ts';
import { clampPair, clampSingle } from '../gpu-budget.ts';
import type { EngineCapabilities, PerPool, Pool, PoolCounts, Targets } from '../types.ts';
import { type Demand, type DemandState, observeDemand, startDemand } from './demand.ts';
import { endpointsMinOf, gpusOfEngine, kindOf, limitsOf, modelOptions, pairLimits, poolsOf } from './pools.ts';

/** Input of the rate law at a tick. Counts are totals of all edges and workers. */
export interface RateInput {
  readonly nowS: number;
  readonly counts: PerPool<PoolCounts & { readonly starting?: number }>;
  /**
   * Requests that began since the last tick, without retries. Undefined if nothing was heard of those that count them:
   * then demand is unknown, and nothing shrinks.
   */
  readonly started: number | undefined;
  /** Requests that wait for a worker. */
  readonly held: number;
  readonly running: number;
  /** Workers of each pool at which more requests wait than run, and the requests that wait at workers. */
  readonly backlog?: PerPool<{ readonly workers: number; readonly requests: number }>;
  /** Means of the requests that began, in tokens. */
  readonly isl?: number | undefined;
  readonly osl?: number | undefined;
  readonly kvHitRate?: number | undefined;
  readonly acceptLength?: number | undefined;
  /** Means over the engines of a pool. */
  readonly observed?: PerPool<{ readonly itlMs?: number | undefined; readonly kvUse?: number | undefined }>;
  /** Seconds from a decision to a worker that serves, as measured: the 90th percentile. @default the configured one */
  readonly startSeconds?: number | undefined;
}

/** Plain values; the lists are bounded by their windows. */
export interface RateState extends DemandState {
  readonly pools: PerPool<RatePool>;
  readonly idleSinceS?: number | undefined;
  readonly lengths: { readonly isl: number; readonly osl: number };
  readonly kvHitRate?: number | undefined;
  readonly acceptLength: number;
}

interface RatePool {
  readonly target: number;
  /**
   * Needs over the window in which nothing shrinks. A need that a later one exceeds is dropped, so the first is the
   * largest.
   */
  readonly needs: readonly { readonly atS: number; readonly count: number }[];
  /** Share of its stated capacity that an engine has shown. */
  readonly correction: number;
  readonly correctedAtS: number;
}

/** Target of a pool, and the numbers behind it. Rates in requests a second. */
export interface RateDecision extends Demand {
  readonly target: number;
  readonly need: number;
  readonly perEngine: number;
  readonly held: number;
  /** Workers that will not have caught up when a new one serves, and do not count. */
  readonly behind: number;
  /** The need follows from a burst that may come. */
  readonly isForSurge: boolean;
  readonly limitedBy?: 'budget' | 'step' | 'down window' | 'minimum' | undefined;
}

export interface RateOutcome {
  /**
   * Targets of every pool, even unchanged ones, so that lost workers are replaced. Undefined while demand is unknown,
   * or while capacity is unknown unless a held request needs the first worker.
   */
  readonly targets?: Targets | undefined;
  readonly pools: PerPool<RateDecision>;
  readonly unknown?: 'demand' | 'capacity' | undefined;
}

const HELD_DRAIN_S = 60;
const CORRECTION_MIN = 0.5;
const CORRECT_EVERY_S = 60;
const KV_USE_MAX = 0.9;
const NEEDS_MAX = 2048;

export function startRate(nowS: number): RateState {
  return { ...startDemand(nowS), pools: {}, lengths: { isl: 0, osl: 0 }, acceptLength: 1 };
}

/**
 * Sizes each pool for the requests that begin: those of the last seconds, or those that a short trend expects by the
 * time a new worker serves. It divides them by the capacity of an engine within its targets. A pool grows at once, even
 * while workers start, and shrinks to the largest need of a window. Work that waits at engines does not count, because
 * new workers cannot take it. Workers await bursts that come again.
 */
export function tickRate(
  before: RateState,
  input: RateInput,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
  models: PerPool<PassModelState> = {},
): { readonly state: RateState; readonly outcome: RateOutcome } {
  const { nowS, started } = input;
  if (nowS <= before.lastAtS) return { state: before, outcome: { pools: {} } };
  if (started === undefined && input.held === 0) {
    return { state: { ...before, lastAtS: nowS, idleSinceS: undefined }, outcome: { pools: {}, unknown: 'demand' } };
  }
  const startSeconds = input.startSeconds ?? config.startSeconds;
  const observed = observeDemand(before, { nowS, started: started ?? 0, startSeconds }, config);
  const state = { ...before, ...observed.state, ...learn(before, input) };
  const decisions: Record<string, RateDecision> = {};
  const pools: Record<string, RatePool> = {};
  for (const pool of poolsOf(config)) {
    const capacity = measuredCapacity(pool, config) ?? capacityOfPool(pool, state, config, engines, models);
    if (capacity === undefined) {
      return { state: wakeFrom(state, input), outcome: unknownCapacity(state, input, config) };
    }
    const known = state.pools[pool] ?? firstPool(input.counts[pool], nowS);
    const corrected = correct(known, pool, input, config);
    const perEngine = capacity * corrected.correction;
    const decided = decidePool(pool, corrected, { ...observed.demand, perEngine }, state, input, config);
    decisions[pool] = decided.decision;
    pools[pool] = decided.pool;
  }
  return withinBudget({ ...state, pools }, decisions, config, engines);
}

function firstPool(counts: (PoolCounts & { readonly starting?: number }) | undefined, nowS: number): RatePool {
  const target = (counts?.ready ?? 0) + (counts?.starting ?? 0);
  // The earlier need is unknown: the present workers are kept as if they had been needed.
  return { target, needs: [{ atS: nowS, count: target }], correction: 1, correctedAtS: nowS };
}

/** Learns the inputs that do not depend on the number of requests. */
function learn(before: RateState, input: RateInput): Partial<RateState> {
  const isIdle = (input.started ?? 0) === 0 && input.held === 0 && input.running === 0;
  return {
    idleSinceS: isIdle ? (before.idleSinceS ?? input.nowS) : undefined,
    lengths: { isl: input.isl ?? before.lengths.isl, osl: input.osl ?? before.lengths.osl },
    kvHitRate: input.kvHitRate ?? before.kvHitRate,
    acceptLength: input.acceptLength ?? before.acceptLength,
  };
}

/** Returns the requests a second that a user measured for a worker of a pool; nothing without a measured value. */
export function measuredCapacity(pool: Pool, config: PlannerConfig): number | null | undefined {
  return ownCapacity(pool, config) ?? config.rateRequestsPerSecond;
}

/** Returns the measured requests a second that the configuration has for this pool only. */
export function ownCapacity(pool: Pool, config: PlannerConfig): number | null | undefined {
  return pool === 'prefill' ? config.ratePrefillRequestsPerSecond : config.rateDecodeRequestsPerSecond;
}

function capacityOfPool(
  pool: Pool,
  { lengths, kvHitRate, acceptLength }: RateState,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
  models: PerPool<PassModelState>,
): number | undefined {
  const model = models[pool] && passModel(models[pool], modelOptions(pool, config));
  if (model === undefined || lengths.isl <= 0 || lengths.osl <= 0) return undefined;
  const kind = kindOf(pool, config);
  return capacityOf(kind, model, limitsOf(engines[pool]), {
    ...lengths,
    ttftSlaMs: kind === 'decode' ? undefined : config.ttftMs,
    itlSlaMs: kind === 'prefill' ? undefined : config.itlMs,
    kvHitRate,
    acceptLength,
  })?.requestsPerSecond;
}

/** Compares engines with their computed capacity, while the pool is steady. */
function correct(known: RatePool, pool: Pool, { nowS, observed, counts }: RateInput, config: PlannerConfig): RatePool {
  const seen = observed?.[pool];
  const isSteady = (counts[pool]?.starting ?? 0) === 0 && (counts[pool]?.ready ?? 0) === known.target;
  if (seen === undefined || !isSteady || nowS - known.correctedAtS < CORRECT_EVERY_S) return known;
  const isOver = (seen.kvUse ?? 0) > KV_USE_MAX || (seen.itlMs ?? 0) > config.itlMs;
  const correction = Math.min(1, Math.max(CORRECTION_MIN, known.correction * (isOver ? 0.93 : 1.01)));
  return { ...known, correction, correctedAtS: nowS };
}

function decidePool(
  pool: Pool,
  known: RatePool,
  demand: Demand & { readonly perEngine: number },
  state: RateState,
  input: RateInput,
  config: PlannerConfig,
): { readonly pool: RatePool; readonly decision: RateDecision } {
  const { nowS, held, startSeconds = config.startSeconds } = input;
  const floor = isAtZero(state, input, config) ? 0 : floorOf(pool, state, nowS, startSeconds, config);
  const { need, behind, isForSurge } = needOf(pool, demand, floor === 0, input, config);
  const sinceS = nowS - config.rateDownWindowSeconds;
  const needs = [
    ...known.needs.filter(({ atS, count: one }) => atS > sinceS && one > need),
    { atS: nowS, count: need },
  ].slice(-NEEDS_MAX);
  const mostNeeded = floor === 0 ? need : (needs[0]?.count ?? need);
  const wanted = Math.max(need > known.target ? need : Math.min(known.target, mostNeeded), floor);
  const target = Math.max(
    floor,
    Math.min(known.target + config.rateStepMax, Math.max(known.target - config.rateStepMax, wanted)),
  );
  const limitedBy =
    target !== wanted
      ? 'step'
      : wanted === floor && floor > need
        ? 'minimum'
        : wanted > need
          ? 'down window'
          : undefined;
  return {
    pool: { ...known, target, needs },
    decision: { ...demand, target, need, held, behind, isForSurge, limitedBy },
  };
}

/** @param isAsleep an old trend is no reason to start a worker, because the last request is long ago */
function needOf(
  pool: Pool,
  { rate, arrivals, surge, perEngine }: Demand & { readonly perEngine: number },
  isAsleep: boolean,
  input: RateInput,
  config: PlannerConfig,
): Pick<RateDecision, 'need' | 'behind' | 'isForSurge'> {
  const { held } = input;
  const load = config.rateTargetLoad;
  const forRate = isAsleep ? 0 : workersFor(rate, load * perEngine);
  const forHeld = held === 0 ? 0 : Math.max(1, workersFor(Math.min(rate, arrivals) + held / HELD_DRAIN_S, perEngine));
  // Two loads are planned without a reserve: a burst that may not come, and what others serve while workers are behind.
  const full = Math.max(1, load) * perEngine;
  const forNow = Math.max(forRate, forHeld);
  const behind = behindOf(pool, forNow * perEngine - rate, input, config);
  const forOthers = behind === 0 ? 0 : behind + workersFor(rate, full);
  const withoutSurge = Math.max(forNow, forOthers);
  const need = Math.max(withoutSurge, workersFor(surge, full));
  return { need, behind: forOthers > forNow ? behind : 0, isForSurge: need > withoutSurge };
}

function workersFor(rate: number, perEngine: number): number {
  return Math.ceil(rate / perEngine - 1e-9);
}

/**
 * Returns the workers that will not have caught up when a new one serves: requests that begin meanwhile need other
 * workers. New workers cannot take the requests that wait there, so these requests count for nothing else.
 *
 * @param sparePerSecond requests by which the workers that are needed anyway catch up each second
 */
function behindOf(
  pool: Pool,
  sparePerSecond: number,
  { backlog, counts, startSeconds }: RateInput,
  config: PlannerConfig,
): number {
  const { workers = 0, requests = 0 } = backlog?.[pool] ?? {};
  const isLost = requests > sparePerSecond * (startSeconds ?? config.startSeconds);
  return isLost ? Math.min(workers, counts[pool]?.ready ?? 0) : 0;
}

/**
 * Returns the fewest workers of a pool. If that is 0: 1, until nothing has run or waited for `idleToZeroSeconds` and
 * for five starts.
 */
function floorOf(
  pool: Pool,
  { idleSinceS }: RateState,
  nowS: number,
  startSeconds: number,
  config: PlannerConfig,
): number {
  const endpointsMin = endpointsMinOf(pool, config);
  if (endpointsMin > 0) return endpointsMin;
  const idleS = idleSinceS === undefined ? 0 : nowS - idleSinceS;
  return idleSinceS !== undefined && idleS >= Math.max(config.idleToZeroSeconds, 5 * startSeconds) ? 0 : 1;
}

/**
 * Returns whether a fleet has no worker and needs none, and whether its frontends would hold the first request. A
 * frontend that knows a model only by its workers does not: for it, a first worker starts without a request.
 */
function isAtZero({ idleSinceS, pools }: RateState, { counts }: RateInput, config: PlannerConfig): boolean {
  if (!config.startAtZero || idleSinceS === undefined) return false;
  return poolsOf(config).every((pool) => {
    const { ready = 0, starting = 0 } = counts[pool] ?? {};
    return endpointsMinOf(pool, config) + ready + starting + (pools[pool]?.target ?? 0) === 0;
  });
}

/** Without a capacity a held request still wants a worker: the first one shows what it can do. */
function unknownCapacity(state: RateState, { counts, held }: RateInput, config: PlannerConfig): RateOutcome {
  const isEmpty = poolsOf(config).some((pool) => (counts[pool]?.ready ?? 0) + (counts[pool]?.starting ?? 0) === 0);
  if (held === 0 || !isEmpty) return { pools: {}, unknown: 'capacity' };
  const targets = Object.fromEntries(
    poolsOf(config).map((pool) => [pool, Math.max(1, state.pools[pool]?.target ?? 0, endpointsMinOf(pool, config))]),
  );
  return { targets, pools: {}, unknown: 'capacity' };
}

function wakeFrom(state: RateState, { counts, held, nowS }: RateInput): RateState {
  if (held === 0) return state;
  const pools = Object.fromEntries(
    Object.entries(state.pools).map(([pool, known]) => [
      pool,
      { ...firstPool(counts[pool as Pool], nowS), ...known, target: Math.max(1, known.target) },
    ]),
  );
  return { ...state, pools };
}

function withinBudget(
  state: RateState,
  decisions: PerPool<RateDecision>,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
): { readonly state: RateState; readonly outcome: RateOutcome } {
  const pools = poolsOf(config);
  const limits = pairLimits({ config, engines });
  const wanted = Object.fromEntries(pools.map((pool) => [pool, decisions[pool]!.target])) as PerPool<number>;
  // The floor of GPUs holds only while there is work: zero means zero.
  const isAsleep = pools.every((pool) => wanted[pool] === 0);
  const only = pools[0]!;
  const fitted: PerPool<number> = isAsleep
    ? wanted
    : pools.length > 1
      ? clampPair({ prefill: wanted.prefill ?? 0, decode: wanted.decode ?? 0 }, limits)
      : {
          [only]: clampSingle(
            wanted[only] ?? 0,
            gpusOfEngine(only, engines, config),
            limits.bounds,
            limits.endpointsMin[only],
          ),
        };
  const bounded = Object.fromEntries(
    pools.map((pool) => {
      const decision = decisions[pool]!;
      const target = fitted[pool] ?? 0;
      return [pool, target === decision.target ? decision : { ...decision, target, limitedBy: 'budget' as const }];
    }),
  );
  const settled = Object.fromEntries(pools.map((pool) => [pool, { ...state.pools[pool]!, target: fitted[pool] ?? 0 }]));
  return { state: { ...state, pools: settled }, outcome: { targets: fitted, pools: bounded } };
}
