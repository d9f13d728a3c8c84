import { type PlannerConfig, PlannerConfigError, parsePlannerConfig, toFileKeys } from './config.ts';
import type { ForwardPass } from './forward-pass/metrics.ts';
import { endpointsMinOf, gpusOfEngine, poolsOf } from './laws/pools.ts';
import {
  type RateDecision,
  type RateInput,
  type RateOutcome,
  type RateState,
  startRate,
  tickRate,
} from './laws/rate.ts';
import {
  type LoopOutcome,
  type LoopState,
  learnPasses,
  observeEngines,
  startLoops,
  tickLoops,
  warmUp,
  wattsOf,
} from './loops.ts';
import { limitPower, type PowerReason } from './power-budget.ts';
import {
  type EngineCapabilities,
  eachPool,
  LOAD_REASONS,
  type PerPool,
  type Pool,
  type PoolCounts,
  type Targets,
  THROUGHPUT_REASONS,
  type TickInput,
  type TrafficWindow,
} from './types.ts';

/** Memory of a planner between ticks: plain values, so that any host can store them. */
export interface PlannerState {
  readonly loops: LoopState;
  readonly rate: RateState;
}

/** Result of a tick: targets and why. */
export interface PlannerEffect {
  /** Undefined: nothing should change, or nothing is known. */
  readonly targets?: Targets | undefined;
  /** One sentence for people. */
  readonly reason: string;
  /** The numbers behind it. */
  readonly loops?: LoopOutcome | undefined;
  readonly rate?: RateOutcome | undefined;
  readonly power?: PowerReason | undefined;
}

/** Everything that a law may ask for; each law reads its part. */
export type PlannerInput = TickInput & Omit<RateInput, 'nowS' | 'counts'> & Pick<RateInput, 'counts'>;

export interface Planner {
  readonly config: PlannerConfig;
  readonly engines: PerPool<EngineCapabilities>;
}

export function startPlanner(nowS: number): PlannerState {
  return { loops: startLoops(nowS), rate: startRate(nowS) };
}

/** Learns from earlier measurements: passes of a profile by pool, and windows of traffic, oldest first. */
export function teach(
  state: PlannerState,
  config: PlannerConfig,
  passes: PerPool<readonly (readonly ForwardPass[])[]>,
  windows: readonly TrafficWindow[] = [],
): PlannerState {
  return { ...state, loops: warmUp(learnPasses(state.loops, passes, config), windows, config) };
}

/** Runs one tick. The same input a second time changes nothing, because time must go on. */
export function tick(
  before: PlannerState,
  told: PlannerInput,
  { config, engines }: Planner,
): { readonly state: PlannerState; readonly effect: PlannerEffect } {
  if (!Number.isFinite(told.nowS)) throw new RangeError(`planner: nowS must be a number of seconds, not ${told.nowS}`);
  const input = saneInput(told);
  if (config.law !== 'rate') {
    const { state, outcome } = tickLoops(before.loops, input, config, engines);
    const { targets, power } = withinPower(outcome.targets, input, config, engines, outcome.asked);
    const effect = { targets, reason: explainLoops(outcome, input.counts), loops: outcome, power };
    return { state: { ...before, loops: state }, effect };
  }
  const taught = observeEngines(before.loops, input, config);
  const { state, outcome } = tickRate(before.rate, input, config, engines, taught.models);
  const { targets, power } = withinPower(outcome.targets, input, config, engines);
  const effect = { targets, reason: explainRate(outcome, input.counts), rate: outcome, power };
  return { state: { loops: taught, rate: state }, effect };
}

/** @param asked targets of the loops even if they change nothing: they may still draw too much */
function withinPower(
  targets: Targets | undefined,
  { counts }: PlannerInput,
  config: PlannerConfig,
  engines: PerPool<EngineCapabilities>,
  asked = targets,
): { readonly targets: Targets | undefined; readonly power?: PowerReason | undefined } {
  const { enablePowerAwareness: isOn, totalGpuPowerLimit: wattsMax } = config;
  const isStarting = poolsOf(config).some((pool) => (counts[pool]?.pending ?? 0) > 0); // the loops have counted those
  if (asked === undefined || !isOn || wattsMax == null || isStarting) return { targets };
  const current = eachPool((pool) => counts[pool]?.ready ?? 0);
  const watts = eachPool((pool) => wattsOf(pool, config, engines) ?? 0);
  const { proposal, reason: power } = limitPower(asked, current, {
    watts,
    wattsMax,
    endpointsMin: eachPool((pool) => endpointsMinOf(pool, config)),
  });
  // A pool that keeps its target is not named.
  const isNews = (pool: Pool): boolean => proposal[pool] !== wantedNow(counts[pool]);
  const told = poolsOf(config).filter((pool) => proposal[pool] !== undefined && isNews(pool));
  if (told.length === 0) return { targets: undefined, power };
  return { targets: Object.fromEntries(told.map((pool) => [pool, proposal[pool]])), power };
}

/** Returns the workers of a pool once everything under way is over. */
function wantedNow(counts: PoolCounts | undefined): number {
  return counts?.expected ?? (counts?.ready ?? 0) + (counts?.starting ?? 0);
}

/** A larger figure is not a measurement. */
const FIGURE_MAX = 1e12;

/**
 * Returns the input without impossible figures. A figure that is not a number, negative or absurd counts as unknown; a
 * pass or a window with such a figure counts as not reported. Impossible counts of workers count as not given.
 */
function saneInput(input: PlannerInput): PlannerInput {
  const observed = each(input.observed ?? {}, ({ itlMs, kvUse }) => ({ itlMs: figure(itlMs), kvUse: figure(kvUse) }));
  const backlog = each(input.backlog ?? {}, ({ workers, requests }) => ({
    workers: Math.floor(figure(workers) ?? 0),
    requests: figure(requests) ?? 0,
  }));
  return {
    ...input,
    backlog,
    counts: each(input.counts, saneCounts),
    passes: each(input.passes ?? {}, (passes) => passes.filter(isSanePass)),
    traffic: input.traffic && isSaneWindow(input.traffic) ? input.traffic : undefined,
    started: figure(input.started),
    held: figure(input.held) ?? 0,
    running: figure(input.running) ?? 0,
    isl: figure(input.isl),
    osl: figure(input.osl),
    kvHitRate: figure(input.kvHitRate),
    acceptLength: figure(input.acceptLength),
    startSeconds: figure(input.startSeconds),
    observed,
  };
}

function each<T, U>(pools: PerPool<T>, read: (value: T) => U): PerPool<U> {
  return Object.fromEntries(Object.entries(pools).map(([pool, value]) => [pool, read(value)]));
}

function figure(value: number | null | undefined): number | undefined {
  return typeof value === 'number' && value >= 0 && value <= FIGURE_MAX ? value : undefined; // NaN is neither
}

function saneCounts<T extends PoolCounts>(counts: T): T {
  const whole = (value: number | undefined): number | undefined => {
    const known = figure(value);
    return known === undefined ? undefined : Math.floor(known);
  };
  return {
    ...counts,
    ready: whole(counts.ready) ?? 0,
    starting: whole(counts.starting),
    expected: whole(counts.expected),
    pending: whole(counts.pending),
  };
}

const PASS_FIGURES = [
  'dpRank',
  'wallTimeS',
  'prefillRequests',
  'prefillTokens',
  'prefillKvTokens',
  'decodeRequests',
  'decodeKvTokens',
  'queuedPrefillRequests',
  'queuedPrefillTokens',
  'queuedDecodeRequests',
  'queuedDecodeKvTokens',
] as const satisfies readonly (keyof ForwardPass)[];

function isSanePass(pass: ForwardPass): boolean {
  return PASS_FIGURES.every((name) => figure(pass[name]) !== undefined);
}

function isSaneWindow({ seconds, requests, isl, osl }: TrafficWindow): boolean {
  return [seconds, requests, isl, osl].every((value) => figure(value) !== undefined);
}

/** Says in a sentence why Dynamo's loops decided as they did. */
function explainLoops({ targets, kept, load, throughput }: LoopOutcome, counts: PerPool<PoolCounts>): string {
  const parts = [
    load?.reason && load.reason !== 'disabled' ? LOAD_REASONS[load.reason] : undefined,
    throughput?.reason && THROUGHPUT_REASONS[throughput.reason],
    kept && KEPT[kept],
  ].filter((part) => part !== undefined);
  const why = parts.length > 0 ? parts.join('; ') : 'no loop is due';
  return `${moves(targets ?? {}, counts)}: ${why}`;
}

const KEPT = {
  minimum: 'fewer than the minimum serve',
  budget: 'what serves is outside the GPU budget',
} as const;

/** Says in a sentence why the rate law decided as it did. */
function explainRate({ targets, pools, unknown }: RateOutcome, counts: PerPool<PoolCounts>): string {
  const what = moves(targets ?? {}, counts);
  if (unknown === 'demand') return `${what}: nothing that counts requests was heard, so the demand is unknown`;
  if (unknown === 'capacity') return `${what}: nothing is known yet of what a worker serves`;
  const sentences = Object.entries(pools).map(([pool, decision]) => {
    const { need, perEngine, held, behind, limitedBy } = decision;
    const name = Object.keys(pools).length > 1 ? `${pool} ` : '';
    const waiting = held > 0 ? ` and ${held} wait` : '';
    const late = behind > 0 ? ` and ${behind} will not have caught up` : '';
    const limit = limitedBy === undefined ? '' : `, ${LIMITS[limitedBy]}`;
    return `${name}${demandOf(decision)}${waiting}, a worker serves ${shown(perEngine)}${late}: ${need} needed${limit}`;
  });
  return `${what}: ${sentences.join('; ') || 'nothing was asked'}`;
}

function demandOf({ rate, arrivals, forecast, surge, isForSurge, isPassing }: RateDecision): string {
  const now = `${shown(arrivals)} requests/s begin`;
  if (isForSurge) return `a burst of ${shown(surge)} requests/s may come (${shown(arrivals)} now)`;
  if (isPassing) return `${now}, a burst that will be over before a worker serves`;
  if (rate < Math.max(arrivals, forecast)) return `${now}, ${shown(rate)} for as long as counts`;
  return forecast > arrivals ? `${shown(forecast)} requests/s are expected (${shown(arrivals)} now)` : now;
}

const LIMITS = {
  budget: 'within the GPU budget',
  step: 'as far as one step goes',
  'down window': 'and what was needed a short while ago is kept',
  minimum: 'and the minimum is kept',
} as const;

function moves(targets: PerPool<number>, counts: PerPool<PoolCounts>): string {
  const changed = Object.entries(targets).flatMap(([pool, target]) => {
    const now = counts[pool as keyof typeof counts];
    const have = (now?.ready ?? 0) + (now?.starting ?? 0);
    return target === have ? [] : [`${pool} ${have} -> ${target}`];
  });
  return changed.length === 0 ? 'no change' : changed.join(', ');
}

function shown(rate: number): string {
  return rate >= 10 ? rate.toFixed(0) : rate.toFixed(1);
}

/** Bounds that may change while a planner runs, named as in its file; what is left out stays. */
export interface PlannerBounds {
  readonly min_endpoint?: number;
  readonly prefill_min_endpoint?: number;
  readonly decode_min_endpoint?: number;
  readonly min_gpu_budget?: number;
  readonly max_gpu_budget?: number;
}

/** Returns the same planner within other bounds. @throws PlannerConfigError for bounds that contradict each other */
export function withBounds({ config: before, engines }: Planner, bounds: PlannerBounds): Planner {
  const config = parsePlannerConfig({ ...toFileKeys(before), ...bounds });
  const { maxGpuBudget: gpusMax } = config;
  const gpus = poolsOf(config).reduce(
    (total, pool) => total + endpointsMinOf(pool, config) * gpusOfEngine(pool, engines, config),
    0,
  );
  if (gpusMax >= 0 && gpus > gpusMax) {
    const problem = `minimum endpoint footprint requires ${gpus} GPUs, exceeding max_gpu_budget=${gpusMax}`;
    throw new PlannerConfigError([problem]);
  }
  return { config, engines };
}
