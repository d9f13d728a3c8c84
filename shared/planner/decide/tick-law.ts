import { NO_TRAFFIC } from '../../protocol/index.ts';
import { runsThroughputLoop } from '../config.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { type Planner, type PlannerEffect, type PlannerInput, tick } from '../planner.ts';
import type { OptionView } from '../record/option-view.ts';
import { sumLoads, type WorkerLoad } from '../signals/worker-load.ts';
import { type EngineCapabilities, eachPool, type PerPool, POOLS, type Pool, type TrafficWindow } from '../types.ts';
import type { BatchReport } from './apply-signal.ts';
import { type LeavingWorkers, leavingOf } from './interruptions.ts';
import { decidedOf, type ModelState, meanOf, passOf } from './model-state.ts';
import { type CountedWorkers, heardCounts, measuredStart, type WorkerCount } from './worker-counts.ts';

export interface DecideOptions {
  readonly planner: Planner;
  readonly counted?: CountedWorkers | undefined;
  /** Capacity options as the environment lists them, for people. @default the pools */
  readonly fleet?: readonly OptionView[] | undefined;
  /**
   * Seconds from a decision to a worker that serves, as the environment measured. @default as measured from what was
   * heard
   */
  readonly startSeconds?: number | undefined;
}

/** One tick of the law: its input and its answer. */
export interface LawTick {
  readonly atS: number;
  readonly effect: PlannerEffect;
  readonly counts: PerPool<WorkerCount>;
  /** Workers that must exist beside those of the law's targets, because they leave. */
  readonly leaving?: PerPool<number> | undefined;
  /** Undefined: nothing was heard of those that count requests. */
  readonly started: number | undefined;
  readonly running: number;
  readonly held: number;
  readonly isl?: number | undefined;
  readonly osl?: number | undefined;
  readonly ttftMs?: number | undefined;
  readonly itlMs?: number | undefined;
  /** Mean time of a request, in seconds. */
  readonly requestSeconds?: number | undefined;
  /** Seconds that the numbers cover. */
  readonly seconds: number;
}

/** Seconds without news of those that count requests, after which the demand is unknown. */
const UNKNOWN_AFTER_S = 60;
const HIT_RATE_WINDOW_S = 300;

/** Asks the law with what `state` knows, and begins the next interval in `state`. */
export function tickLaw(state: ModelState, report: BatchReport, options: DecideOptions): LawTick {
  const { planner } = options;
  const { config } = planner;
  const { nowS, sinceTick } = state;
  const seconds = nowS - state.tickAtS;
  const { input, counts, figures } = inputOf(state, report, options);
  const engines = { ...enginesOf(state), ...planner.engines };
  const { state: after, effect } = tick(state.planner, input, { config, engines });
  const ttftMs = inMs(meanOf(sinceTick.ttft_sum_s, sinceTick.ttft_count));
  const requestSeconds = meanOf(sinceTick.dur_sum_s, sinceTick.dur_count);
  const itlMs = input.observed?.decode?.itlMs;
  state.planner = after;
  state.tickAtS = nowS;
  state.isUrgent = false;
  state.startedSinceTick = 0;
  state.sinceTick = NO_TRAFFIC;
  const isWindowUsed = input.traffic !== undefined && effect.loops?.throughput !== undefined;
  const isWindowOver = !runsThroughputLoop(config) && nowS - state.traffic.fromS > HIT_RATE_WINDOW_S;
  if (isWindowUsed || isWindowOver) state.traffic = { fromS: nowS, totals: NO_TRAFFIC };
  return { atS: nowS, effect, counts, ...figures, ttftMs, itlMs, requestSeconds, seconds };
}

type Figures = Pick<LawTick, 'started' | 'running' | 'held' | 'isl' | 'osl' | 'leaving'>;

/** Returns the input of the law, with the numbers that people read. */
function inputOf(
  state: ModelState,
  report: BatchReport,
  { planner, counted, startSeconds }: DecideOptions,
): { readonly input: PlannerInput; readonly counts: Readonly<Record<Pool, WorkerCount>>; readonly figures: Figures } {
  const { nowS, sinceTick } = state;
  const startS = startSeconds ?? measuredStart(state);
  const startsInS = startS ?? planner.config.startSeconds;
  const leaving = eachPool((pool) => leavingOf(state, pool, startsInS, counted?.[pool]?.serving));
  const counts = eachPool((pool) => countOf(state, pool, leaving[pool], counted?.[pool], startsInS));
  const loads = eachPool((pool) => loadOf(state, pool));
  const isEmpty = POOLS.every((pool) => counts[pool].ready === 0);
  const isUnknown = !isEmpty && nowS - state.heardAtS > UNKNOWN_AFTER_S;
  const figures = {
    started: isUnknown ? undefined : state.startedSinceTick,
    leaving: eachPool((pool) => leaving[pool].replaced),
    running: POOLS.reduce((total, pool) => total + loads[pool].running + loads[pool].waiting, 0),
    held: Object.values(state.held).reduce((total, { count }) => total + count, 0),
    isl: meanOf(sinceTick.isl_sum, sinceTick.isl_count),
    osl: meanOf(sinceTick.osl_sum, sinceTick.osl_count),
  };
  const { leaving: _, ...told } = figures;
  const input: PlannerInput = {
    nowS,
    counts: eachPool((pool) => expectedOf(state, pool, counts[pool])),
    passes: eachPool((pool) => passesOf(state, pool, report)),
    traffic: trafficWindow(state, planner),
    ...told,
    kvHitRate: hitRate(state),
    observed: {
      prefill: { kvUse: loads.prefill.kvUse },
      decode: { kvUse: loads.decode.kvUse, itlMs: inMs(meanOf(sinceTick.itl_sum_s, sinceTick.itl_count)) },
    },
    backlog: eachPool((pool) => ({ workers: loads[pool].behind, requests: loads[pool].waiting })),
    startSeconds: startS,
  };
  return { input, counts, figures };
}

/** Returns what workers say of their engines, by pool. */
export function enginesOf({ engines }: ModelState): PerPool<EngineCapabilities> {
  return Object.fromEntries(
    Object.entries(engines).map(([pool, facts]) => {
      const { gpus, max_num_seqs: maxNumSeqs, max_num_batched_tokens: maxNumBatchedTokens } = facts;
      const { context_length: contextLength, max_kv_tokens: maxKvTokens } = facts;
      return [pool, { gpus, maxNumSeqs, maxNumBatchedTokens, contextLength, maxKvTokens }];
    }),
  );
}

function inMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : 1000 * seconds;
}

function hitRate({ traffic: { totals } }: ModelState): number | undefined {
  return meanOf(totals.kv_hit_sum, totals.kv_hit_count);
}

/**
 * Returns the traffic of a whole window; undefined until the throughput loop is due, which asks for whole windows only.
 */
function trafficWindow(state: ModelState, { config }: Planner): TrafficWindow | undefined {
  const { fromS, totals } = state.traffic;
  const intervalS = config.throughputAdjustmentIntervalSeconds;
  if (!runsThroughputLoop(config) || state.nowS - state.planner.loops.throughputAtS < intervalS - 1e-9)
    return undefined;
  if (totals.started === 0 && state.nowS - state.heardAtS > UNKNOWN_AFTER_S) return undefined;
  return {
    seconds: state.nowS - fromS,
    requests: totals.started,
    isl: meanOf(totals.isl_sum, totals.isl_count) ?? 0,
    osl: meanOf(totals.osl_sum, totals.osl_count) ?? 0,
    kvHitRate: hitRate(state),
  };
}

/** Adds up the load of a pool: that of its aggregated workers, and that of each that reports by itself. */
function loadOf(state: ModelState, pool: Pool): WorkerLoad {
  const direct = Object.values(state.direct)
    .filter((each) => each.pool === pool)
    .map(({ running, waiting, kvUse }) => ({ running, waiting, kvUse, behind: waiting > running ? 1 : 0 }));
  const aggregated = state.folded[pool];
  return sumLoads([...(aggregated ? [{ ...aggregated, behind: aggregated.behind ?? 0 }] : []), ...direct]);
}

function passesOf(state: ModelState, pool: Pool, report: BatchReport): readonly ForwardPass[] {
  const direct = Object.entries(state.direct)
    .filter(([, each]) => each.pool === pool)
    .flatMap(([id, { passes }]) => passes.map(([dpRank = 0, ...row]) => passOf(id, dpRank, row)));
  return [...(report.passes[pool] ?? []), ...direct];
}

/** Counts the workers of a pool without those that leave. */
function countOf(
  state: ModelState,
  pool: Pool,
  { up, listed }: LeavingWorkers,
  counted: WorkerCount | undefined,
  startS: number,
): WorkerCount {
  if (counted !== undefined) return { ...counted, ready: Math.max(0, counted.ready - listed) };
  const heard = heardCounts(state, pool, startS);
  return { ...heard, ready: Math.max(0, heard.ready - up) };
}

function expectedOf(state: ModelState, pool: Pool, { ready, starting: all, failing = 0 }: WorkerCount) {
  const starting = Math.max(0, all - failing);
  const decided = decidedOf(state, pool);
  // If a worker was lost, the decided number is no longer on its way.
  return { ready, starting, expected: decided === undefined ? undefined : Math.min(decided, ready + starting) };
}
