import { START_PHASES } from './ec2/conditions.ts';
import type { PhaseTimes } from './ec2/ledger.ts';
import type { OptionRecord } from './ec2/option-record.ts';
import { peakToMean, type Spread, spreadOf } from './percentiles.ts';
import type { ScalingRecord, Simulation } from './simulate.ts';
import type { SimulatedRank } from './simulated-rank.ts';

/** A simulation in figures. Rates are shares of 1. */
export interface Summary {
  /** Requests that were answered. */
  readonly requests: number;
  /** Requests that no worker could hold. */
  readonly refused: number;
  /** From the start to the last token, in virtual time. */
  readonly durationMs: number;
  /** From the arrival at a router to the first token. */
  readonly ttftMs: Spread;
  /** Between two tokens of a request, over all tokens. */
  readonly itlMs: Spread;
  /** From the arrival at a router to the last token. */
  readonly e2eMs: Spread;
  /** In the routers' queues. */
  readonly queueMs: Spread;
  /**
   * Prompt tokens found in the caches. Second admissions of preempted requests count, as in the reference replays.
   */
  readonly hitRate: number;
  /** The same at first admissions only. */
  readonly firstHitRate: number;
  /** Hit rate of one cache as large as all workers' together. */
  readonly hitCeiling: number;
  /** Hit rate of one cache without bounds. */
  readonly hitCeilingUnbounded: number;
  readonly outputTokensPerS: number;
  readonly preemptions: number;
  /** Workers and ranks over the whole duration, one GPU each. */
  readonly gpuHours: number;
  /** Balance of the ranks; of two pools, that of the less even one. */
  readonly loadBalance: LoadBalance;
  /** Only with separate prefill workers. */
  readonly disaggregation?: DisaggregationSummary;
  /** Only if workers come and go. */
  readonly scaling?: ScalingSummary;
}

/** Results of scaling. */
export interface ScalingSummary {
  /** Requests whose first token and mean gap between tokens met their targets, of all that arrived. */
  readonly attainment: number;
  readonly ups: number;
  readonly downs: number;
  /** Workers that had notice to leave, and starts that came to nothing. */
  readonly interruptions: number;
  readonly failures: number;
  /** Requests that had not ended when their worker was taken away, and went on elsewhere. */
  readonly moved: number;
  /** Most workers that served at once. */
  readonly readyMax: number;
  /** Most requests that waited at once while no worker served. */
  readonly heldMax: number;
  readonly dollars: number;
  /** Only for a fleet on EC2: what became of each option. */
  readonly options?: readonly OptionSummary[];
  /** Only for a fleet on EC2 that a request found without a worker. */
  readonly fromZero?: FromZero;
  /** Only for a fleet on EC2: calls of the planner to Auto Scaling. */
  readonly autoScalingCalls?: number;
  /** Only for a fleet on EC2: share of each phase in the starts of all options. */
  readonly phaseShares?: PhaseTimes;
}

/** An option without its course over time. */
export type OptionSummary = Omit<OptionRecord, 'points'>;

/** Times from the first request without a worker to a worker that serves. */
interface FromZero {
  readonly count: number;
  readonly meanSeconds: number;
  readonly maxSeconds: number;
}

/** Busiest rank over the mean: time in passes, prompt tokens, blocks in use. 1 = even. */
export interface LoadBalance {
  readonly busyTime: number;
  readonly promptTokens: number;
  readonly activeBlocks: number;
}

export interface DisaggregationSummary {
  /** From the arrival at a router to the end of the prefill. */
  readonly prefillMs: Spread;
  /** In the router's queue for a decode worker. */
  readonly decodeQueueMs: Spread;
  /** Until the blocks of the prompt have crossed to it. */
  readonly transferMs: Spread;
  readonly prefill: PoolSummary;
  readonly decode: PoolSummary;
}

/** Work of the workers of one role. */
export interface PoolSummary {
  readonly ranks: number;
  readonly requests: number;
  readonly promptTokens: number;
  /** A prefill worker makes one token of each request, which the decode worker makes again. */
  readonly outputTokens: number;
  readonly preemptions: number;
  /** Share of the time that its ranks spent in passes. */
  readonly busyShare: number;
  readonly loadBalance: LoadBalance;
}

const MS_PER_HOUR = 3_600_000;

/** Sums a simulation up. */
export function summarize(simulation: Simulation): Summary {
  const { ranks, gaps, durationMs, refused, options } = simulation;
  const { inputTokens, outputTokens, size } = options.workload;
  const isAnswered = (_: number, at: number): boolean => !Number.isNaN(simulation.ttftMs[at]!);
  const promptTokens = sum(inputTokens.filter(isAnswered));
  const seconds = Math.max(durationMs, 1) / 1000;
  return {
    requests: size - refused,
    refused,
    durationMs,
    ttftMs: spreadOf(simulation.ttftMs.filter(isAnswered)),
    itlMs: {
      mean: gaps.meanMs,
      p50: gaps.quantileMs(0.5),
      p90: gaps.quantileMs(0.9),
      p99: gaps.quantileMs(0.99),
    },
    e2eMs: spreadOf(simulation.e2eMs.filter(isAnswered)),
    queueMs: spreadOf(simulation.queuedMs.filter(isAnswered)),
    hitRate: sum(simulation.reusedTokens) / Math.max(1, promptTokens),
    firstHitRate: sum(simulation.cachedTokens) / Math.max(1, promptTokens),
    hitCeiling: simulation.hitCeiling,
    hitCeilingUnbounded: simulation.hitCeilingUnbounded,
    outputTokensPerS: sum(outputTokens.filter(isAnswered)) / seconds,
    preemptions: sum(simulation.preemptions),
    gpuHours: (simulation.scaling?.gpuMs ?? ranks.length * durationMs) / MS_PER_HOUR,
    loadBalance: balanceOf(ranks),
    ...summarizeStages(simulation),
    ...summarizeScaling(simulation),
  };
}

function summarizeScaling(simulation: Simulation): Pick<Summary, 'scaling'> {
  const { scaling, options } = simulation;
  if (scaling === undefined || options.scaling === undefined) return {};
  const { points, ups, downs, interruptions, failures, moved } = scaling;
  const { size } = options.workload;
  let met = 0;
  for (let request = 0; request < size; request++) if (meetsTargets(simulation, request)) met++;
  return {
    scaling: {
      attainment: met / Math.max(1, size),
      ups,
      downs,
      interruptions,
      failures,
      moved,
      readyMax: Math.max(0, ...points.map(({ ready }) => ready)),
      heldMax: Math.max(0, ...points.map(({ held }) => held)),
      dollars: dollarsOf(scaling, 'gpuPrice' in options.scaling ? options.scaling.gpuPrice : 0),
      ...summarizeOptions(scaling),
    },
  };
}

/** Returns the cost in US dollars: of the options of a fleet on EC2, otherwise of all GPUs at one price. */
function dollarsOf({ ec2, gpuMs }: ScalingRecord, gpuPrice = 0): number {
  return ec2 === undefined ? (gpuMs / MS_PER_HOUR) * gpuPrice : sum(ec2.options.map(({ dollars }) => dollars));
}

function summarizeOptions({
  ec2,
}: ScalingRecord): Pick<ScalingSummary, 'options' | 'fromZero' | 'phaseShares' | 'autoScalingCalls'> {
  if (ec2 === undefined) return {};
  const { options, fromZeroS, calls } = ec2;
  const total = sum(options.map(({ starts, startSeconds }) => starts * startSeconds));
  const shares = START_PHASES.map((phase) => {
    const seconds = sum(options.map(({ starts, phaseSeconds }) => starts * phaseSeconds[phase]));
    return [phase, total === 0 ? 0 : seconds / total] as const;
  });
  const count = fromZeroS.length;
  return {
    options: options.map(({ points: _, ...option }) => option),
    ...(count > 0 && {
      fromZero: { count, meanSeconds: sum(fromZeroS) / count, maxSeconds: Math.max(...fromZeroS) },
    }),
    autoScalingCalls: calls,
    phaseShares: Object.fromEntries(shares) as PhaseTimes,
  };
}

/** Returns whether a request had its first token in time, and the others on average. */
export function meetsTargets({ ttftMs, e2eMs, options }: Simulation, request: number): boolean {
  const { ttftTargetMs = Number.POSITIVE_INFINITY, itlTargetMs = Number.POSITIVE_INFINITY } = options.scaling ?? {};
  const gaps = Math.max(1, options.workload.outputTokens[request]! - 1);
  const itlMs = (e2eMs[request]! - ttftMs[request]!) / gaps;
  return ttftMs[request]! <= ttftTargetMs && itlMs <= itlTargetMs; // NaN of a refused one is neither
}

function summarizeStages({
  stages,
  ranks,
  durationMs,
}: Simulation): Partial<Pick<Summary, 'disaggregation' | 'loadBalance'>> {
  if (stages === undefined) return {};
  const isAnswered = (value: number): boolean => !Number.isNaN(value);
  const prefill = poolSummary(
    ranks.filter(({ role }) => role === 'prefill'),
    durationMs,
  );
  const decode = poolSummary(
    ranks.filter(({ role }) => role === 'decode'),
    durationMs,
  );
  const [one, other] = [prefill.loadBalance, decode.loadBalance];
  return {
    loadBalance: {
      busyTime: Math.max(one.busyTime, other.busyTime),
      promptTokens: Math.max(one.promptTokens, other.promptTokens),
      activeBlocks: Math.max(one.activeBlocks, other.activeBlocks),
    },
    disaggregation: {
      prefillMs: spreadOf(stages.prefillMs.filter(isAnswered)),
      decodeQueueMs: spreadOf(stages.decodeQueuedMs.filter(isAnswered)),
      transferMs: spreadOf(stages.transferMs.filter(isAnswered)),
      prefill,
      decode,
    },
  };
}

function poolSummary(ranks: readonly SimulatedRank[], durationMs: number): PoolSummary {
  return {
    ranks: ranks.length,
    requests: sum(ranks.map(({ requests }) => requests)),
    promptTokens: sum(ranks.map(({ promptTokens }) => promptTokens)),
    outputTokens: sum(ranks.map(({ outputTokens }) => outputTokens)),
    preemptions: sum(ranks.map(({ preemptions }) => preemptions)),
    busyShare: sum(ranks.map(({ busyMs }) => busyMs)) / Math.max(1, ranks.length * durationMs),
    loadBalance: balanceOf(ranks),
  };
}

function balanceOf(ranks: readonly SimulatedRank[]): LoadBalance {
  return {
    busyTime: peakToMean(ranks.map(({ busyMs }) => busyMs)),
    promptTokens: peakToMean(ranks.map(({ promptTokens }) => promptTokens)),
    activeBlocks: peakToMean(ranks.map(({ activeBlockMs }) => activeBlockMs)),
  };
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
