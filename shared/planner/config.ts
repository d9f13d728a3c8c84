import * as z from 'zod';
import { PLANNER_LAWS } from '../config/index.ts';
import { PREDICTORS } from './predictors/predictor.ts';
import { SEASON_POINTS_MAX } from './predictors/seasonal.ts';

/** `rate` is this product's own law; Dynamo calls the others optimization targets. */
export type PlannerLaw = (typeof PLANNER_LAWS)[number];

const MODES = ['disagg', 'prefill', 'decode', 'agg'] as const;
/** Pools under control; the only pool of `agg` counts as decode. */
export type PlannerMode = (typeof MODES)[number];

const count = (low: number, high = 100_000) => z.number().int().min(low).max(high);
const budget = z.number().int().min(-1).max(1_000_000);
const seconds = z
  .number()
  .positive()
  .max(7 * 86_400);
const port = z.number().int().min(0).max(65_535);
const percent = z.number().min(0).max(100);

const SHAPE = z.object({
  mode: z.enum(MODES).default('disagg'),
  namespace: z.string().min(1).max(256).default('dynamo'),
  model_name: z.string().min(1).max(512).nullish(),
  law: z.enum(PLANNER_LAWS).optional(),
  optimization_target: z.enum(['throughput', 'latency', 'load', 'sla']).optional(),
  enable_throughput_scaling: z.boolean().default(true),
  enable_load_scaling: z.boolean().default(false),
  ttft_ms: z.number().positive().max(3_600_000).default(500),
  itl_ms: z.number().positive().max(3_600_000).default(50),
  max_gpu_budget: budget.default(8),
  min_gpu_budget: budget.default(-1),
  min_endpoint: count(0).default(1),
  prefill_min_endpoint: count(1).nullish(),
  decode_min_endpoint: count(1).nullish(),
  max_throughput_scaling_replicas: count(1).default(8),
  total_gpu_power_limit: count(1, 1_000_000_000).nullish(),
  enable_power_awareness: z.boolean().default(false),
  decode_engine_num_gpu: count(1).nullish(),
  prefill_engine_num_gpu: count(1).nullish(),
  /** Watts of one worker, for power awareness. */
  decode_engine_watts: count(1, 1_000_000).nullish(),
  prefill_engine_watts: count(1, 1_000_000).nullish(),
  throughput_adjustment_interval_seconds: seconds.default(180),
  load_adjustment_interval_seconds: seconds.default(5),
  max_num_fpm_samples: count(1, 4096).default(64),
  fpm_sample_bucket_size: count(1, 4096).default(16),
  load_scaling_down_sensitivity: percent.default(80),
  load_min_observations: count(1, 4096).default(5),
  prefill_scale_up_queue_tokens: count(0, 1e9).nullish(),
  prefill_scale_down_queue_tokens: count(0, 1e9).nullish(),
  decode_scale_up_kv_rate: percent.nullish(),
  decode_scale_down_kv_rate: percent.nullish(),
  speculative_nextn: count(0, 64).default(0),
  load_predictor: z.enum(PREDICTORS).default('kalman'),
  load_predictor_log1p: z.boolean().default(false),
  moving_average_points: count(1, 128).default(5),
  seasonal_period_seconds: seconds.default(86_400),
  kalman_q_level: z.number().min(0).max(1e9).default(1),
  kalman_q_trend: z.number().min(0).max(1e9).default(0.1),
  kalman_r: z.number().min(0).max(1e9).default(10),
  kalman_min_points: count(1, 1000).default(5),
  advisory: z.boolean().default(false),
  /** Ports of a planner that runs beside its fleet; 0 = off. */
  live_dashboard_port: port.default(8080),
  control_api_port: port.default(9086),
  report_interval_hours: z.number().positive().max(8760).nullable().default(24),
  report_output_dir: z.string().min(1).max(4096).default('./planner_reports'),
  report_filename: z
    .string()
    .regex(/^[^/\\]{1,200}$/, 'a file name without folders')
    .nullish(),
  report_write_gzip_log: z.boolean().default(true),
  /** Settings of the rate law; docs/planner.md describes them. */
  rate_target_load: z.number().positive().max(2).default(0.85),
  rate_window_seconds: z.number().min(5).max(120).default(15),
  rate_deviations: z.number().min(0).max(5).default(1),
  rate_down_window_seconds: z.number().min(0).max(7200).default(120),
  rate_up_window_seconds: z.number().min(0).max(7200).default(0),
  rate_surge_hold_seconds: z.number().min(0).max(86_400).default(900),
  rate_surge_worth: z.number().min(0).max(1000).default(10),
  rate_requests_per_second: z.number().positive().max(1e6).nullish(),
  /** Rates of one of two pools. */
  rate_prefill_requests_per_second: z.number().positive().max(1e6).nullish(),
  rate_decode_requests_per_second: z.number().positive().max(1e6).nullish(),
  rate_seasonal: z.boolean().default(false),
  rate_step_max: count(1).default(8),
  start_seconds: seconds.default(180),
  idle_to_zero_seconds: z
    .number()
    .min(0)
    .max(7 * 86_400)
    .default(900),
  start_at_zero: z.boolean().default(false),
  min_instance_seconds: z.number().min(0).max(86_400).default(180),
  scheduling: z
    .strictObject({
      scale_interval_seconds: seconds.optional(),
      tick_max_duration_seconds: seconds.default(30),
    })
    .default({ tick_max_duration_seconds: 30 }),
});

/** Names of all keys of a configuration, without older ones. */
export const PLANNER_KEYS: readonly string[] = Object.keys(SHAPE.shape);

type Camel<Key extends string> = Key extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<Camel<Rest>>}` : Key;
type CamelKeys<T> = { readonly [Key in keyof T as Camel<Key & string>]: T[Key] };
type Parsed = CamelKeys<Omit<z.output<typeof SHAPE>, 'law' | 'optimization_target'>>;

/**
 * Configuration of a planner: its `law` is settled, and its intervals divide each other. Times in seconds, percentages
 * as such. A field is named as its key of the file, in camel case.
 */
export interface PlannerConfig extends Parsed {
  readonly law: PlannerLaw;
  /** Seconds between two ticks. */
  readonly tickSeconds: number;
}

/** Older names of keys. */
const ALIASES: Readonly<Record<string, string>> = {
  ttft: 'ttft_ms',
  itl: 'itl_ms',
  throughput_adjustment_interval: 'throughput_adjustment_interval_seconds',
  load_adjustment_interval: 'load_adjustment_interval_seconds',
  no_operation: 'advisory',
};

/** Problems of a configuration, a line each: key, value and what is allowed. */
export class PlannerConfigError extends Error {
  override readonly name = 'PlannerConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Reads a planner's configuration. It ignores unknown keys, as Dynamo does.
 *
 * @throws PlannerConfigError
 */
export function parsePlannerConfig(raw: unknown, law?: PlannerLaw): PlannerConfig {
  if (isProphet(raw)) throw new PlannerConfigError([PROPHET_INSTEAD]);
  const result = SHAPE.safeParse(renamed(raw));
  if (!result.success) {
    throw new PlannerConfigError(
      result.error.issues.map(({ path, message }) => `planner configuration: ${path.join('.') || 'it'}: ${message}`),
    );
  }
  const { optimization_target: target, law: named, ...rest } = result.data;
  const config: PlannerConfig = { ...fromFileKeys(rest), law: law ?? named ?? target ?? 'rate', tickSeconds: 0 };
  const problems = problemsOf(config);
  if (problems.length > 0) throw new PlannerConfigError(problems.map((problem) => `planner configuration: ${problem}`));
  return { ...config, tickSeconds: config.scheduling.scale_interval_seconds ?? commonDivisor(loopsOf(config)) };
}

function fromFileKeys<T extends object>(parsed: T): CamelKeys<T> {
  const camel = (key: string): string => key.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(parsed).map(([key, value]) => [camel(key), value])) as CamelKeys<T>;
}

/** Returns the configuration under the keys of its file. */
export function toFileKeys(config: PlannerConfig): Readonly<Record<string, unknown>> {
  const snake = (key: string): string => key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(config).map(([key, value]) => [snake(key), value]));
}

let defaultsText: ReadonlyMap<string, string> | undefined;

/** Returns the keys of a configuration that differ from their defaults, and the law, as its file names them. */
export function changedKeys(config: PlannerConfig): Readonly<Record<string, unknown>> {
  defaultsText ??= new Map(Object.entries(SHAPE.parse({})).map(([key, value]) => [key, JSON.stringify(value)]));
  const { tick_seconds: _, ...keys } = toFileKeys(config);
  const changed = Object.entries(keys).filter(([key, value]) => JSON.stringify(value) !== defaultsText?.get(key));
  return Object.fromEntries(changed);
}

const PROPHET_INSTEAD =
  'planner configuration: load_predictor: prophet is not served; use seasonal, which repeats what a day (or seasonal_period_seconds) ago was like at the level of now, or arima for a trend without seasons';

function isProphet(raw: unknown): boolean {
  return typeof raw === 'object' && raw !== null && 'load_predictor' in raw && raw.load_predictor === 'prophet';
}

function renamed(raw: unknown): unknown {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) return raw;
  const entries = Object.entries(raw);
  const older = entries.filter(([key]) => Object.hasOwn(ALIASES, key)).map(([key, value]) => [ALIASES[key], value]);
  // The current name takes precedence.
  return Object.fromEntries([...older, ...entries.filter(([key]) => !Object.hasOwn(ALIASES, key))]);
}

/** Returns the intervals of the loops that run, in seconds. */
function loopsOf(config: PlannerConfig): readonly number[] {
  const load = config.loadAdjustmentIntervalSeconds;
  return runsThroughputLoop(config) ? [load, config.throughputAdjustmentIntervalSeconds] : [load];
}

export function runsThroughputLoop({ law, enableThroughputScaling }: PlannerConfig): boolean {
  return law === 'sla' && enableThroughputScaling;
}

export function runsLoadLoop({ law, enableLoadScaling }: PlannerConfig): boolean {
  return law !== 'sla' || enableLoadScaling;
}

export function hasPrefillPool({ mode }: Pick<PlannerConfig, 'mode'>): boolean {
  return mode === 'disagg' || mode === 'prefill';
}

export function hasDecodePool({ mode }: Pick<PlannerConfig, 'mode'>): boolean {
  return mode !== 'prefill';
}

function problemsOf(config: PlannerConfig): readonly string[] {
  const problems: string[] = [];
  const {
    law,
    minGpuBudget: gpusMin,
    maxGpuBudget: gpusMax,
    loadAdjustmentIntervalSeconds: load,
    throughputAdjustmentIntervalSeconds: throughput,
  } = config;
  if (law === 'sla' && !config.enableThroughputScaling && !config.enableLoadScaling) {
    problems.push('law sla needs enable_throughput_scaling or enable_load_scaling');
  }
  if (runsThroughputLoop(config) && runsLoadLoop(config) && load >= throughput) {
    problems.push(
      `load_adjustment_interval_seconds ${load} must be below throughput_adjustment_interval_seconds ${throughput}`,
    );
  }
  if (gpusMin >= 0 && gpusMax >= 0 && gpusMin > gpusMax) {
    problems.push(`min_gpu_budget ${gpusMin} is above max_gpu_budget ${gpusMax}`);
  }
  if (!Number.isInteger(Math.sqrt(config.fpmSampleBucketSize))) {
    problems.push(`fpm_sample_bucket_size ${config.fpmSampleBucketSize} must be a perfect square`);
  }
  if (config.enablePowerAwareness && config.totalGpuPowerLimit == null) {
    problems.push('enable_power_awareness needs total_gpu_power_limit');
  }
  if (config.enablePowerAwareness && config.mode === 'agg') problems.push('enable_power_awareness is not for mode agg');
  for (const pool of ['prefill', 'decode'] as const) {
    const has = pool === 'prefill' ? hasPrefillPool(config) : hasDecodePool(config);
    if (config[`${pool}MinEndpoint`] != null && (!has || config.mode === 'agg')) {
      problems.push(`${pool}_min_endpoint is not for mode ${config.mode}: there is no such pool, or only one`);
    }
  }
  const seasonPoints = config.seasonalPeriodSeconds / throughput;
  if (config.loadPredictor === 'seasonal' && (seasonPoints < 2 || seasonPoints > SEASON_POINTS_MAX)) {
    problems.push(
      `seasonal_period_seconds ${config.seasonalPeriodSeconds} must be 2 to ${SEASON_POINTS_MAX} times throughput_adjustment_interval_seconds ${throughput}`,
    );
  }
  if (law === 'load') problems.push(...problemsOfThresholds(config));
  const interval = config.scheduling.scale_interval_seconds;
  for (const loop of interval === undefined ? [] : loopsOf(config)) {
    const share = loop / interval!;
    if (Math.abs(share - Math.round(share)) > 1e-9) {
      problems.push(`scheduling.scale_interval_seconds ${interval} must divide the interval ${loop} of a loop`);
    }
  }
  return problems;
}

function problemsOfThresholds(config: PlannerConfig): readonly string[] {
  const keys = toFileKeys(config);
  const pairs = [
    ...(hasPrefillPool(config) ? [['prefill_scale_up_queue_tokens', 'prefill_scale_down_queue_tokens'] as const] : []),
    ...(hasDecodePool(config) ? [['decode_scale_up_kv_rate', 'decode_scale_down_kv_rate'] as const] : []),
  ];
  return pairs.flatMap(([upName, downName]) => {
    const [up, down] = [keys[upName], keys[downName]];
    if (typeof up !== 'number' || typeof down !== 'number') return [`law load needs ${upName} and ${downName}`];
    return up > down ? [] : [`${upName} ${up} must be above ${downName} ${down}`];
  });
}

/** Returns the greatest common divisor, to the millisecond. */
function commonDivisor(values: readonly number[]): number {
  const divisor = (one: number, other: number): number => (other === 0 ? one : divisor(other, one % other));
  return values.map((value) => Math.round(value * 1000)).reduce(divisor) / 1000;
}
