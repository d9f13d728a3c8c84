import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import type { SentSignal } from '../../../shared/planner/decide/apply-signal.ts';
import { NO_TRAFFIC, type PlannerEventOf } from '../../../shared/protocol/index.ts';
import { BEGIN_S } from './fleet-signals.ts';

/** The planner of an aggregated pool, whose workers serve ten requests a second and start in a minute. */
export function plannerOf(config: Record<string, unknown> = {}) {
  const raw = { mode: 'agg', rate_requests_per_second: 10, max_gpu_budget: 32, start_seconds: 60, ...config };
  return { config: parsePlannerConfig(raw), engines: { decode: { gpus: 1 } } };
}

export function workerIdAt(at: number): string {
  return (2 ** 52 + at * 7919).toString(16);
}

export function instanceIdAt(at: number): string {
  return `i-${(0x0abc_def0_0000 + at * 104_729).toString(16).padStart(17, '0')}`;
}

export interface AggregatedOptions {
  readonly workers: number;
  /** Workers of an instance. @default no worker names its instance */
  readonly perInstance?: number;
  /** Numbers of the workers that are left out. @default none */
  readonly without?: readonly number[];
  /** Requests of a second since the beginning. @default 0 */
  readonly rate?: number;
}

const PASS = [0.03, 1, 512, 0, 200, 250_000, 3, 4000, 0, 0] as const;

/** One message of a process that aggregates the workers of a model. */
export function aggregatedAt(
  atS: number,
  seq: number,
  { workers, perInstance, without = [], rate = 0 }: AggregatedOptions,
): SentSignal {
  const numbers = Array.from({ length: workers }, (_, at) => at).filter((at) => !without.includes(at));
  const started = Math.round(rate * atS);
  const totals = {
    ...NO_TRAFFIC,
    started,
    completed: started,
    isl_sum: 1000 * started,
    isl_count: started,
    osl_sum: 100 * started,
    osl_count: started,
  };
  const pool = {
    workers: numbers.map(workerIdAt),
    ...(perInstance === undefined
      ? {}
      : { instances: numbers.map((at) => instanceIdAt(Math.floor(at / perInstance))) }),
    running: 3 * numbers.length,
    waiting: 0,
    kv_use: 0.5123,
    totals,
    engine: { gpus: 1, kv_block_size: 64, max_kv_tokens: 2_000_000, max_num_seqs: 256, max_num_batched_tokens: 8192 },
    has_passes: true,
    samples: Array.from({ length: 16 }, () => [...PASS]),
  };
  const common = { v: 1, namespace: 'ns', model: 'm', source: 'resident', epoch: 'e', seq } as const;
  const event = { type: 'model.rollup', ...common, at: (BEGIN_S + atS) * 1000, pools: { agg: pool } };
  return { signal: event as unknown as PlannerEventOf<'model.rollup'>, sentAtS: BEGIN_S + atS };
}
