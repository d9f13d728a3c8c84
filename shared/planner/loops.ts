import type { PlannerConfig } from './config.ts';
import { runsLoadLoop, runsThroughputLoop } from './config.ts';
import type { ForwardPass } from './forward-pass/metrics.ts';
import { NO_PASSES, observePasses, type PassModelState } from './forward-pass/model.ts';
import { fitsBudget } from './gpu-budget.ts';
import { type Invariant, keepInvariants } from './laws/invariants.ts';
import { type LoadOutcome, runLoadLoop } from './laws/load-loop.ts';
import { modelOptions, pairLimits, poolsOf } from './laws/pools.ts';
import { type ExpectedDemand, runThroughputLoop, type ThroughputOutcome } from './laws/throughput-loop.ts';
import {
  forecast,
  NO_POINTS,
  observe,
  type PredictorOptions,
  type PredictorState,
  rearmIdleSkip,
} from './predictors/predictor.ts';
import type { EngineCapabilities, PerPool, Pool, Targets, TickInput, TrafficWindow } from './types.ts';

/** Memory of the two loops of Dynamo's targets between ticks: plain values. */
export interface LoopState {
  readonly loadAtS: number;
  readonly throughputAtS: number;
  readonly models: PerPool<PassModelState>;
  readonly predictors: Readonly<Record<keyof ExpectedDemand, PredictorState>>;
  /** Lengths of the last window with requests. */
  readonly lastLengths?: { readonly isl: number; readonly osl: number } | undefined;
  readonly kvHitRate?: number | undefined;
  readonly acceptLength?: number | undefined;
  readonly floors: PerPool<number>;
  /** A reduction while workers start, and since when it has been wanted. */
  readonly cancelling?: { readonly wish: string; readonly sinceS: number } | undefined;
}

export interface LoopOutcome {
  readonly targets?: Targets | undefined;
  /** Targets of the loops, even if they equal the serving workers: other bounds may still forbid them. */
  readonly asked?: Targets | undefined;
  readonly load?: LoadOutcome | undefined;
  readonly throughput?: ThroughputOutcome | undefined;
  readonly demand?: ExpectedDemand | undefined;
  /** Bound that was kept regardless of the loops. */
  readonly kept?: Invariant | undefined;
}

/** Returns the state at the start, at `nowS`. */
export function startLoops(nowS: number): LoopState {
  const predictors = { requests: NO_POINTS, isl: NO_POINTS, osl: NO_POINTS };
  return { loadAtS: nowS, throughputAtS: nowS, models: {}, predictors, floors: {} };
}

function predictorOptions(config: PlannerConfig): PredictorOptions {
  return {
    name: config.loadPredictor,
    log1p: config.loadPredictorLog1p,
    movingPoints: config.movingAveragePoints,
    seasonPoints: config.seasonalPeriodSeconds / config.throughputAdjustmentIntervalSeconds,
    kalman: {
      qLevel: config.kalmanQLevel,
      qTrend: config.kalmanQTrend,
      r: config.kalmanR,
      pointsMin: config.kalmanMinPoints,
    },
  };
}

/** Feeds windows of the past to the predictors, oldest first. */
export function warmUp(state: LoopState, windows: readonly TrafficWindow[], config: PlannerConfig): LoopState {
  const warm = windows.reduce((before, window) => observeTraffic(before, window, config), state);
  const { requests, isl, osl } = warm.predictors;
  const predictors = { requests: rearmIdleSkip(requests), isl: rearmIdleSkip(isl), osl: rearmIdleSkip(osl) };
  return { ...warm, predictors, lastLengths: undefined };
}

/** Learns from passes that were measured before: a profile, or the last run. */
export function learnPasses(
  state: LoopState,
  passes: PerPool<readonly (readonly ForwardPass[])[]>,
  config: PlannerConfig,
): LoopState {
  const models = { ...state.models };
  for (const pool of poolsOf(config)) {
    const options = modelOptions(pool, config);
    const seen = passes[pool] ?? [];
    if (seen.length > 0) models[pool] = observePasses(models[pool] ?? NO_PASSES, seen, options);
  }
  return { ...state, models };
}

/** Runs the loops that are due, the throughput loop first. */
export function tickLoops(
  before: LoopState,
  input: TickInput,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
): { readonly state: LoopState; readonly outcome: LoopOutcome } {
  let state = observeEngines(before, input, config);
  const isLoadDue = isDue(input.nowS, before.loadAtS, config.loadAdjustmentIntervalSeconds);
  const isThroughputDue =
    runsThroughputLoop(config) && isDue(input.nowS, before.throughputAtS, config.throughputAdjustmentIntervalSeconds);
  const shared = { config, engines, counts: input.counts };
  let demand: ExpectedDemand | undefined;
  let throughput: ThroughputOutcome | undefined;
  if (isThroughputDue) {
    state = { ...state, throughputAtS: input.nowS };
    if (input.traffic === undefined || input.traffic.seconds <= 0) {
      throughput = { reason: 'no_traffic_data', reasons: {}, capacities: {} };
    } else {
      state = observeTraffic(state, input.traffic, config);
      const expected = expect(state, config);
      ({ state, demand } = expected);
      throughput = runThroughputLoop({
        ...shared,
        models: state.models,
        demand,
        windowSeconds: input.traffic.seconds,
        kvHitRate: state.kvHitRate,
        acceptLength: acceptLengthOf(state, config),
        setsFloors: runsLoadLoop(config),
      });
      if (throughput.floors !== undefined) state = { ...state, floors: throughput.floors };
    }
  }
  let load: LoadOutcome | undefined;
  if (isLoadDue) {
    state = { ...state, loadAtS: input.nowS };
    load = runsLoadLoop(config)
      ? runLoadLoop({
          ...shared,
          passes: input.passes ?? {},
          models: state.models,
          kvHitRate: state.kvHitRate,
          acceptLength: acceptLengthOf(state, config),
          floors: state.floors,
        })
      : { reason: 'disabled', reasons: {} };
  }
  if (poolsOf(config).some((pool) => (input.counts[pool]?.pending ?? 0) > 0)) {
    if (!isLoadDue && !isThroughputDue) return { state, outcome: {} };
    const settled = whileStarting(state, load?.proposed ?? throughput?.proposed, input, config, engines);
    return { state: settled.state, outcome: { targets: settled.targets, load, throughput, demand } };
  }
  state = { ...state, cancelling: undefined };
  const proposed = load?.targets ?? throughput?.targets;
  const { targets, kept, ...invariant } = keepInvariants(proposed, input.counts, config, engines);
  const asked = invariant.asked ?? targets ?? load?.proposed;
  return { state, outcome: { targets, asked, kept, load, throughput, demand } };
}

function isDue(nowS: number, lastS: number, intervalS: number): boolean {
  return nowS - lastS >= intervalS - 1e-9;
}

/** Learns from the passes and the traffic of a tick, if the law asks for more than thresholds. */
export function observeEngines(
  state: LoopState,
  { passes = {}, traffic }: TickInput,
  config: PlannerConfig,
): LoopState {
  const seen = {
    kvHitRate: traffic?.kvHitRate ?? state.kvHitRate,
    acceptLength: traffic?.acceptLength ?? state.acceptLength,
  };
  if (config.law !== 'sla' && config.law !== 'rate') return { ...state, ...seen };
  const iterations = Object.fromEntries(poolsOf(config).map((pool) => [pool, byWorker(passes[pool] ?? [])]));
  return { ...learnPasses(state, iterations, config), ...seen };
}

function byWorker(passes: readonly ForwardPass[]): readonly (readonly ForwardPass[])[] {
  const ranks = new Map<string, ForwardPass[]>();
  for (const pass of passes) ranks.set(pass.workerId, [...(ranks.get(pass.workerId) ?? []), pass]);
  return [...ranks.values()];
}

/** A window without requests has no lengths: the last ones continue to count. */
function observeTraffic(state: LoopState, window: TrafficWindow, config: PlannerConfig): LoopState {
  const options = predictorOptions(config);
  const isIdle = window.requests === 0 && state.lastLengths !== undefined;
  const lengths = isIdle ? state.lastLengths! : { isl: window.isl, osl: window.osl };
  return {
    ...state,
    predictors: {
      requests: observe(state.predictors.requests, window.requests, options),
      isl: observe(state.predictors.isl, lengths.isl, options),
      osl: observe(state.predictors.osl, lengths.osl, options),
    },
    lastLengths: window.requests > 0 ? { isl: window.isl, osl: window.osl } : state.lastLengths,
  };
}

function expect(
  state: LoopState,
  config: PlannerConfig,
): { readonly state: LoopState; readonly demand: ExpectedDemand } {
  const options = predictorOptions(config);
  const requests = forecast(state.predictors.requests, options);
  const isl = forecast(state.predictors.isl, options);
  const osl = forecast(state.predictors.osl, options);
  return {
    state: { ...state, predictors: { requests: requests.state, isl: isl.state, osl: osl.state } },
    demand: { requests: requests.value, isl: isl.value, osl: osl.value },
  };
}

function acceptLengthOf(state: LoopState, { speculativeNextn: nextn }: PlannerConfig): number {
  return nextn === 0 ? 1 : Math.min(nextn + 1, Math.max(1, state.acceptLength ?? 1));
}

/**
 * Returns the targets that may pass while workers start: at most the serving workers, and wanted for a whole interval.
 * All that then remains, including starting workers, must fit every budget.
 */
function whileStarting(
  state: LoopState,
  asked: Targets | undefined,
  { nowS, counts }: TickInput,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
): { readonly state: LoopState; readonly targets?: Targets | undefined } {
  const pools = poolsOf(config);
  const calm = { ...state, cancelling: undefined };
  const { gpus, bounds, endpointsMin } = pairLimits({ config, engines });
  const of = (pool: Pool) => ({ ready: counts[pool]?.ready ?? 0, pending: counts[pool]?.pending ?? 0 });
  const targets: Partial<Record<Pool, number>> = {};
  for (const pool of pools) {
    const { ready, pending } = of(pool);
    const wanted = asked?.[pool];
    if (wanted === undefined || wanted > ready) continue;
    const count = Math.max(wanted, endpointsMin[pool]);
    if (count <= ready && count < ready + pending) targets[pool] = count;
  }
  const left = (pool: Pool): number => targets[pool] ?? of(pool).ready + of(pool).pending;
  const total = pools.reduce((sum, pool) => sum + left(pool) * gpus[pool], 0);
  const watts = pools.reduce((sum, pool) => sum + left(pool) * (wattsOf(pool, config, engines) ?? 0), 0);
  const wattsMax = config.enablePowerAwareness ? (config.totalGpuPowerLimit ?? watts) : watts;
  if (Object.keys(targets).length === 0 || !fitsBudget(total, 0, bounds) || watts > wattsMax) return { state: calm };
  const wish = JSON.stringify([targets, pools.map(of)]);
  const sinceS = state.cancelling?.wish === wish ? state.cancelling.sinceS : nowS;
  const isRipe = state.cancelling?.wish === wish && nowS - sinceS >= config.loadAdjustmentIntervalSeconds - 1e-9;
  return { state: { ...state, cancelling: { wish, sinceS } }, targets: isRipe ? targets : undefined };
}

/** Returns the watts of one worker of a pool; undefined if neither its engine nor the configuration states them. */
export function wattsOf(pool: Pool, config: PlannerConfig, engines: PerPool<EngineCapabilities>): number | undefined {
  return engines[pool]?.wattsPerReplica ?? config[`${pool}EngineWatts`] ?? undefined;
}
