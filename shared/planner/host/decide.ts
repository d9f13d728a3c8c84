import { createHash } from 'node:crypto';
import { NO_TRAFFIC as EMPTY } from '../../protocol/index.ts';
import { runsThroughputLoop } from '../config.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { type Planner, type PlannerEffect, type PlannerInput, teach, tick } from '../planner.ts';
import { type EngineCapabilities, type PerPool, POOLS, type Pool, type Targets, type TrafficWindow } from '../types.ts';
import {
  beginAnew,
  type FoldReport,
  foldSignal,
  noReport,
  readyOf,
  type SentSignal,
  STALE_S,
  settleTime,
} from './fold.ts';
import { type ModelState, meanOf, passOf } from './model-state.ts';

/** Workers as an environment counts them itself; a pool that is left out is counted by what was heard. */
export type CountedWorkers = PerPool<{ readonly ready: number; readonly starting: number }>;

export interface DecideOptions {
  readonly planner: Planner;
  readonly counted?: CountedWorkers | undefined;
  /** Seconds from a decision to a worker that serves, as the environment measured. @default as measured from what was heard */
  readonly startSeconds?: number | undefined;
}

/** A look of the law: what it was told and what it said, for whoever asks later. */
export interface Look {
  readonly atS: number;
  readonly effect: PlannerEffect;
  readonly counts: PerPool<{ readonly ready: number; readonly starting: number }>;
  /** Undefined: nobody who counts was heard. */
  readonly started: number | undefined;
  readonly running: number;
  readonly held: number;
  readonly isl?: number | undefined;
  readonly osl?: number | undefined;
  readonly ttftMs?: number | undefined;
  readonly itlMs?: number | undefined;
  /** Mean time of a request, in seconds. */
  readonly requestSeconds?: number | undefined;
  /** Seconds that the numbers are of. */
  readonly seconds: number;
}

/** What is to be, where that is something else than before. */
export interface NewDecision {
  readonly decisionId: number;
  readonly targets: Targets;
  readonly previous: Targets;
  readonly reason: string;
  readonly isAdvisory: boolean;
  readonly configHash: string;
}

export interface Decided {
  readonly state: ModelState;
  readonly report: FoldReport;
  readonly look?: Look | undefined;
  readonly decision?: NewDecision | undefined;
}

/** Nobody who counts was heard for so long: the demand is unknown. */
const UNKNOWN_AFTER_S = 60;
/** Before three starts were measured, the configured time counts. */
const STARTS_MIN = 3;

/**
 * Folds signals into `state`, which it changes, and looks wherever a look is due: with a roll-up after an interval, without one
 * after three, and at once for what cannot wait. How they come in batches matters not; those that were seen before change nothing.
 */
export function decide(state: ModelState, signals: readonly SentSignal[], options: DecideOptions): Decided {
  const { planner } = options;
  const report = noReport();
  let look: Look | undefined;
  let decision: NewDecision | undefined;
  for (const signal of signals) {
    if (!foldSignal(state, signal, report)) continue;
    settleTime(state);
    if (!isDue(state, report, planner)) continue;
    if (isTaught(planner)) state.planner = teach(state.planner, planner.config, report.samples);
    look = lookNow(state, report, options);
    beginAnew(report);
    const next = decisionOf(state, look, planner);
    if (next === undefined) continue;
    noteTargets(state, next);
    // Of several in a batch the last one counts: the others are over before anybody could act on them.
    const { decisionId = next.decisionId, previous = next.previous } = decision ?? {};
    decision = { ...next, decisionId, previous };
    state.decisionId = decisionId;
  }
  return { state, report, look, decision };
}

/** Laws that ask how long passes take. */
function isTaught({ config }: Planner): boolean {
  return config.law === 'sla' || (config.law === 'rate' && config.rate_requests_per_second == null);
}

function isDue(state: ModelState, report: FoldReport, { config }: Planner): boolean {
  const sinceS = state.nowS - state.tickAtS;
  if (sinceS <= 0) return false;
  if (state.isUrgent) return true;
  if (sinceS >= config.tick_seconds - TOLERANCE_S && report.hasRollup) {
    return isRoundComplete(state) || sinceS >= config.tick_seconds + ROUND_S;
  }
  return sinceS >= Math.max(STALE_S, 3 * config.tick_seconds);
}

/** Looked at in the middle of a round, the requests of half the workers would seem to come twice next time. */
function isRoundComplete({ direct, tickAtS }: ModelState): boolean {
  return Object.values(direct).every(({ heardAtS, isCounted }) => isCounted && heardAtS > tickAtS);
}

/** The rest of a round is waited for no longer. */
const ROUND_S = 2;

/** Roll-ups come a little early at times; a look a whole interval later would be a look lost. */
const TOLERANCE_S = 0.5;

function lookNow(state: ModelState, report: FoldReport, { planner, counted, startSeconds }: DecideOptions): Look {
  const { config } = planner;
  const { nowS, sinceTick } = state;
  const startS = startSeconds ?? measuredStart(state);
  const counts = Object.fromEntries(
    POOLS.map((pool) => [pool, counted?.[pool] ?? heardCounts(state, pool, startS ?? config.start_seconds)]),
  ) as Required<CountedWorkers>;
  const isEmpty = POOLS.every((pool) => counts[pool].ready === 0);
  const isUnknown = !isEmpty && nowS - state.heardAtS > UNKNOWN_AFTER_S;
  const seconds = nowS - state.tickAtS;
  const loads = Object.fromEntries(POOLS.map((pool) => [pool, loadOf(state, pool)])) as Record<Pool, PoolLoad>;
  const itlMs = inMs(meanOf(sinceTick.itl_sum_s, sinceTick.itl_count));
  const figures = {
    started: isUnknown ? undefined : state.startedSinceTick,
    running: POOLS.reduce((total, pool) => total + loads[pool].requests, 0),
    held: Object.values(state.held).reduce((total, { count }) => total + count, 0),
    isl: meanOf(sinceTick.isl_sum, sinceTick.isl_count),
    osl: meanOf(sinceTick.osl_sum, sinceTick.osl_count),
  };
  const traffic = trafficWindow(state, planner);
  const input: PlannerInput = {
    nowS,
    counts: Object.fromEntries(POOLS.map((pool) => [pool, expectedOf(state, pool, counts[pool])])),
    passes: Object.fromEntries(POOLS.map((pool) => [pool, passesOf(state, pool, report)])),
    traffic,
    ...figures,
    kvHitRate: hitRate(state),
    observed: {
      prefill: { kvUse: loads.prefill.kvUse },
      decode: { kvUse: loads.decode.kvUse, itlMs },
    },
    backlog: { prefill: loads.prefill.backlog, decode: loads.decode.backlog },
    startSeconds: startS,
  };
  const ticked = tick(state.planner, input, { config, engines: { ...enginesOf(state), ...planner.engines } });
  const ttftMs = inMs(meanOf(sinceTick.ttft_sum_s, sinceTick.ttft_count));
  const requestSeconds = meanOf(sinceTick.dur_sum_s, sinceTick.dur_count);
  const look = { atS: nowS, effect: ticked.effect, counts, ...figures, ttftMs, itlMs, requestSeconds, seconds };
  state.planner = ticked.state;
  state.tickAtS = nowS;
  state.isUrgent = false;
  state.startedSinceTick = 0;
  state.sinceTick = EMPTY;
  if (traffic !== undefined && ticked.effect.loops?.throughput !== undefined) {
    state.traffic = { fromS: nowS, totals: EMPTY };
  } else if (!runsThroughputLoop(config) && nowS - state.traffic.fromS > HIT_RATE_WINDOW_S) {
    state.traffic = { fromS: nowS, totals: EMPTY };
  }
  return look;
}

/** What workers say of their engines, where whoever plans does not know it. */
function enginesOf({ engines }: ModelState): PerPool<EngineCapabilities> {
  return Object.fromEntries(
    Object.entries(engines).map(([pool, facts]) => {
      const { gpus, max_num_seqs: maxNumSeqs, max_num_batched_tokens: maxNumBatchedTokens } = facts;
      const { context_length: contextLength, max_kv_tokens: maxKvTokens } = facts;
      return [pool, { gpus, maxNumSeqs, maxNumBatchedTokens, contextLength, maxKvTokens }];
    }),
  );
}

const HIT_RATE_WINDOW_S = 300;

function inMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : 1000 * seconds;
}

function hitRate({ traffic: { totals } }: ModelState): number | undefined {
  return meanOf(totals.kv_hit_sum, totals.kv_hit_count);
}

/** Only once the throughput loop is to see it: it asks for whole windows. */
function trafficWindow(state: ModelState, { config }: Planner): TrafficWindow | undefined {
  const { fromS, totals } = state.traffic;
  const seconds = state.nowS - fromS;
  const intervalS = config.throughput_adjustment_interval_seconds;
  if (!runsThroughputLoop(config) || state.nowS - state.planner.loops.throughputAtS < intervalS - 1e-9)
    return undefined;
  if (totals.started === 0 && state.nowS - state.heardAtS > UNKNOWN_AFTER_S) return undefined;
  return {
    seconds,
    requests: totals.started,
    isl: meanOf(totals.isl_sum, totals.isl_count) ?? 0,
    osl: meanOf(totals.osl_sum, totals.osl_count) ?? 0,
    kvHitRate: hitRate(state),
  };
}

interface PoolLoad {
  readonly requests: number;
  /** Workers at which more waits than runs, and what waits at workers. */
  readonly backlog: { readonly workers: number; readonly requests: number };
  readonly kvUse: number | undefined;
}

function loadOf(state: ModelState, pool: Pool): PoolLoad {
  const folded = state.folded[pool];
  const direct = Object.values(state.direct).filter((each) => each.pool === pool);
  const uses = [folded, ...direct].flatMap((each) => (each?.kvUse === undefined ? [] : [each.kvUse]));
  return {
    requests: [folded, ...direct].reduce((total, each) => total + (each?.running ?? 0) + (each?.waiting ?? 0), 0),
    backlog: {
      workers: (folded?.behind ?? 0) + direct.filter(({ running, waiting }) => waiting > running).length,
      requests: [folded, ...direct].reduce((total, each) => total + (each?.waiting ?? 0), 0),
    },
    kvUse: uses.length === 0 ? undefined : uses.reduce((total, use) => total + use, 0) / uses.length,
  };
}

function passesOf(state: ModelState, pool: Pool, report: FoldReport): readonly ForwardPass[] {
  const direct = Object.entries(state.direct)
    .filter(([, each]) => each.pool === pool)
    .flatMap(([id, { passes }]) => passes.map(([dpRank = 0, ...row]) => passOf(id, dpRank, row)));
  return [...(report.passes[pool] ?? []), ...direct];
}

/** What was heard, and what was decided and has not come: starts that take twice their time will not come any more. */
function heardCounts(
  state: ModelState,
  pool: Pool,
  startS: number,
): { readonly ready: number; readonly starting: number } {
  const ready = readyOf(state, pool);
  const waiting = (state.starting[pool] ?? []).filter((atS) => state.nowS - atS <= 2 * startS);
  state.starting[pool] = waiting;
  return { ready, starting: waiting.length };
}

function expectedOf(
  state: ModelState,
  pool: Pool,
  { ready, starting }: { readonly ready: number; readonly starting: number },
) {
  const decided = state.targets[pool];
  // Where a worker was lost, what was decided is no longer on its way.
  return { ready, starting, expected: decided === undefined ? undefined : Math.min(decided, ready + starting) };
}

function measuredStart({ startTimes }: ModelState): number | undefined {
  if (startTimes.length < STARTS_MIN) return undefined;
  const sorted = startTimes.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(0.9 * sorted.length))];
}

/** Undefined where everything is as it was decided, or on its way. */
function decisionOf(state: ModelState, { effect, counts, atS }: Look, planner: Planner): NewDecision | undefined {
  const { targets } = effect;
  if (targets === undefined) return undefined;
  const changed = Object.entries(targets).some(([name, target]) => {
    const { ready, starting } = counts[name as Pool] ?? { ready: 0, starting: 0 };
    const decided = state.targets[name as Pool];
    return decided === undefined ? target !== ready + starting : target !== decided || target > ready + starting;
  });
  if (!changed || atS < 0) return undefined;
  const had = (pool: Pool): number => (counts[pool]?.ready ?? 0) + (counts[pool]?.starting ?? 0);
  return {
    decisionId: state.decisionId + 1,
    targets: { ...state.targets, ...targets },
    previous: Object.fromEntries(Object.keys(targets).map((name) => [name, had(name as Pool)])),
    reason: effect.reason,
    isAdvisory: planner.config.advisory,
    configHash: hashOf(planner),
  };
}

/** Which configuration decided: another one has another hash. */
export function hashOf({ config, engines }: Planner): string {
  return createHash('sha256')
    .update(JSON.stringify([config, engines]))
    .digest('hex')
    .slice(0, 16);
}

function noteTargets(state: ModelState, { targets, isAdvisory }: NewDecision): void {
  if (isAdvisory) {
    state.targets = { ...state.targets, ...targets };
    return;
  }
  for (const [name, target] of Object.entries(targets) as [Pool, number][]) {
    const waiting = state.starting[name] ?? [];
    const missing = target - readyOf(state, name) - waiting.length;
    for (let at = 0; at < Math.min(missing, STARTING_MAX - waiting.length); at++) waiting.push(state.nowS);
    if (missing < 0) waiting.splice(Math.max(0, waiting.length + missing)); // the youngest are called off first
    state.starting[name] = waiting;
  }
  state.targets = { ...state.targets, ...targets };
}

/** Starts that are waited for; more than any step that a law takes at once. */
const STARTING_MAX = 1024;
