import {
  type DecisionRecord,
  type FleetSample,
  joinSamples,
  outcomeLines,
  type PlannerConfig,
  type Pool,
  poolsOf,
  STATUS_WORDS,
  type TickRecord,
} from '../../planner/index.ts';
import type { ConsoleDecision, ConsolePlannerConfig, ConsolePoint } from './wire.ts';

/** Length of a step, in milliseconds. */
export const STEP_MS = 10_000;

/** Returns the number of the step in which a record ends. */
export function stepOf({ atMs }: Pick<TickRecord, 'atMs'>): number {
  return Math.floor(atMs / STEP_MS);
}

/** Returns the point of a step. @param records those that end in it, the oldest first; at least one */
export function pointOf(...records: readonly TickRecord[]): ConsolePoint {
  const last = records.at(-1)!; // the caller has one
  const samples = records.flatMap(({ sample }) => sample ?? []);
  const [first, ...others] = samples;
  const sample = first && others.reduce(joinSamples, first);
  const figuresOf = (suffix: string): Record<string, number> => poolFigures(last.figures, suffix);
  return {
    step: stepOf(last),
    at_ms: last.atMs,
    seconds: rounded(sample?.seconds ?? 0),
    requests_per_second: demandOf(sample, last.figures),
    held_max: sample?.heldMax ?? numberOf(last.figures.held),
    running: rounded(meanOf(sample, sample?.runningSeconds) ?? numberOf(last.figures.running)),
    ttft_ms: latencyOf(sample?.ttft),
    itl_ms: latencyOf(sample?.itl),
    forecast: figuresOf('forecast'),
    need: figuresOf('need'),
    capacity: figuresOf('capacity'),
    target: { ...sample?.targets },
    workers: workersOf(sample),
  };
}

function demandOf(sample: FleetSample | undefined, figures: TickRecord['figures']): number | null {
  if (sample === undefined) {
    const { requests_per_second: rate } = figures;
    return typeof rate === 'number' ? rate : null;
  }
  return sample.knownSeconds > 0 ? rounded(sample.started / sample.knownSeconds) : null;
}

function latencyOf(of: FleetSample['ttft'] | undefined): number | null {
  return of === undefined || of.count === 0 ? null : rounded(of.sumMs / of.count);
}

function meanOf(sample: FleetSample | undefined, sum: number | undefined): number | undefined {
  return sample === undefined || sum === undefined || sample.seconds <= 0 ? undefined : sum / sample.seconds;
}

function workersOf(sample: FleetSample | undefined): ConsolePoint['workers'] {
  if (sample === undefined || sample.seconds <= 0) return {};
  return Object.fromEntries(
    Object.entries(sample.options).map(([key, { workers }]) => {
      const phases = Object.entries(workers).map(([phase, sum]) => [phase, rounded(sum / sample.seconds)] as const);
      return [key, Object.fromEntries(phases)];
    }),
  );
}

/** Returns the figures `POOL_suffix` by pool. */
function poolFigures(figures: TickRecord['figures'], suffix: string): Record<string, number> {
  const pools = (['prefill', 'decode'] as const).map((pool) => [pool, figures[`${pool}_${suffix}`]] as const);
  return Object.fromEntries(pools.filter((entry): entry is [Pool, number] => typeof entry[1] === 'number'));
}

function numberOf(value: number | string | undefined): number {
  return typeof value === 'number' ? value : 0;
}

function rounded(value: number): number {
  return Number(value.toPrecision(5));
}

const OUTCOMES: Readonly<Record<DecisionRecord['status'], ConsoleDecision['outcome']>> = {
  PENDING: 'waiting',
  APPLYING: 'under_way',
  APPLIED: 'reached',
  SUPERSEDED: 'overtaken',
  TIMED_OUT: 'late',
  STALLED: 'stalled',
  REJECTED_BUDGET: 'refused',
  ADVISORY: 'advice',
};

/** Returns the row of a decision. */
export function decisionRow(decision: DecisionRecord): ConsoleDecision {
  const { decisionId, decidedAtMs, status, reason, problem, previous, targets, appliedAtMs, figures } = decision;
  return {
    id: decisionId,
    at_ms: decidedAtMs,
    outcome: OUTCOMES[status],
    outcome_words: STATUS_WORDS[status],
    reason,
    problem: problem ?? null,
    previous: { ...previous },
    targets: { ...targets },
    begun_ms: appliedAtMs ?? null,
    inputs: { ...figures },
    details: [...outcomeLines(decision)],
  };
}

/** Returns what the page shows of a configuration. */
export function configRow(config: PlannerConfig): ConsolePlannerConfig {
  const { law, mode, advisory, ttftMs, itlMs, tickSeconds } = config;
  const bounds: Record<string, number> = {};
  const put = (name: string, value: number | null | undefined): void => {
    if (typeof value === 'number') bounds[name] = value;
  };
  if (mode === 'agg') put('min_endpoint', config.minEndpoint);
  else
    for (const pool of poolsOf(config)) put(`${pool}_min_endpoint`, config[`${pool}MinEndpoint`] ?? config.minEndpoint);
  put('min_gpu_budget', config.minGpuBudget);
  put('max_gpu_budget', config.maxGpuBudget);
  put('ttft_ms', ttftMs);
  put('itl_ms', itlMs);
  if (law === 'rate') {
    put('rate_target_load', config.rateTargetLoad);
    put('rate_requests_per_second', config.rateRequestsPerSecond);
    put('rate_down_window_seconds', config.rateDownWindowSeconds);
    put('rate_step_max', config.rateStepMax);
    put('start_seconds', config.startSeconds);
    put('idle_to_zero_seconds', config.idleToZeroSeconds);
  }
  return {
    law,
    mode,
    is_advisory: advisory,
    ttft_ms: ttftMs,
    itl_ms: itlMs,
    tick_seconds: tickSeconds,
    bounds,
  };
}
