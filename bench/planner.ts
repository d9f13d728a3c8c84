/**
 * What laws of the planner make of the reference workloads, with engines that start in three minutes: requests that met their
 * targets, GPU hours, decisions. Dynamo's laws with their settings swept, the rate law with its own, and who knows the future.
 *
 *     npm run bench:part -- bench/planner.ts [--json] [step|diurnal|burst ...]
 */
import { parsePlannerConfig } from '../shared/planner/index.ts';
import { type SimulationOptions, simulate, summarize, type Workload } from '../shared/simulate/index.ts';
import { ForesightPolicy, PlannerPolicy } from '../shared/simulate/scaling/policies.ts';
import type { ScalingOptions, ScalingPolicy } from '../shared/simulate/scaling/scaling.ts';
import { engineOf, readWorkload, routingOf } from '../test/support/planner/reference-fleet.ts';

const START_MS = 180_000;
const WORKLOADS = ['step', 'diurnal', 'burst'] as const;
const MEASURED = { rate_requests_per_second: 15 };

interface Case {
  readonly name: string;
  /** Keys of the planner; undefined = foresight. */
  readonly settings?: object;
  readonly fleet?: Partial<ScalingOptions>;
}

const BOTH = { enable_load_scaling: true, enable_throughput_scaling: true };
const DYNAMO: readonly Case[] = [
  { name: 'throughput', settings: { law: 'throughput' } },
  { name: 'latency', settings: { law: 'latency' } },
  ...[10, 20, 30, 50, 70].map((up) => ({
    name: `load, up ${up} %`,
    settings: { law: 'load', decode_scale_up_kv_rate: up, decode_scale_down_kv_rate: Math.round(up / 4) },
  })),
  { name: 'sla, load loop', settings: { law: 'sla', enable_load_scaling: true, enable_throughput_scaling: false } },
  ...[30, 60, 180].flatMap((seconds) =>
    ['constant', 'kalman'].map((predictor) => ({
      name: `sla, throughput loop, ${predictor}, ${seconds} s`,
      settings: { law: 'sla', load_predictor: predictor, throughput_adjustment_interval_seconds: seconds },
    })),
  ),
  ...['constant', 'kalman'].map((predictor) => ({
    name: `sla, both loops, ${predictor}`,
    settings: { law: 'sla', ...BOTH, load_predictor: predictor },
  })),
];

const RATE: readonly Case[] = [
  { name: 'rate', settings: MEASURED },
  { name: 'rate, planned with 0.95', settings: { ...MEASURED, rate_target_load: 0.95 } },
  {
    name: 'rate, economy',
    settings: {
      ...MEASURED,
      rate_target_load: 1.15,
      rate_window_seconds: 30,
      rate_deviations: 0,
      rate_down_window_seconds: 60,
    },
  },
  { name: 'rate, kept for 15 min', settings: { ...MEASURED, rate_down_window_seconds: 900 } },
  { name: 'rate, 4 spares in 45 s', settings: MEASURED, fleet: { warmWorkers: 4, warmStartMs: 45_000 } },
  { name: 'rate, 1 start in 5 fails', settings: MEASURED, fleet: { startFailures: 0.2 } },
  { name: 'rate, spot: 1 notice in 2 h', settings: MEASURED, fleet: { interruptionsPerHour: 0.5 } },
];

const CASES: readonly Case[] = [...RATE, ...DYNAMO, { name: 'foresight' }];

function policyOf({ settings }: Case, workload: Workload): ScalingPolicy {
  if (settings === undefined) return new ForesightPolicy(workload, 14, START_MS);
  const config = parsePlannerConfig({ mode: 'agg', max_gpu_budget: 16, ...settings });
  const engine = { gpus: 1, maxKvTokens: 262_144, maxNumSeqs: 256, maxNumBatchedTokens: 8192, contextLength: 262_144 };
  return new PlannerPolicy({ config, engines: { decode: engine } }, START_MS);
}

function play(each: Case, workload: Workload) {
  const scaling = {
    policy: policyOf(each, workload),
    startMs: START_MS,
    ttftTargetMs: 500,
    itlTargetMs: 50,
    ...each.fleet,
  };
  const options: SimulationOptions = {
    workload,
    workers: 1,
    dataParallelSize: 1,
    engine: engineOf(),
    routing: routingOf(),
    arrivalSpeedup: 1,
    kvEventLagMs: 0,
    seed: 1,
    scaling,
  };
  const { scaling: outcome, gpuHours, ttftMs } = summarize(simulate(options));
  const { attainment = 0, ups = 0, downs = 0 } = outcome ?? {};
  return { name: each.name, attainment, gpuHours, ups, downs, ttftP99Ms: ttftMs.p99 };
}

const named = WORKLOADS.filter((name) => process.argv.includes(name));
for (const name of named.length > 0 ? named : WORKLOADS) {
  const workload = readWorkload(name);
  const rows = CASES.map((each) => play(each, workload));
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify({ workload: name, rows }));
    continue;
  }
  console.log(`\n${name.padEnd(44)}  attained  GPU h  ups/downs  TTFT p99 ms`);
  for (const { name: law, attainment, gpuHours, ups, downs, ttftP99Ms } of rows) {
    const moves = `${ups}/${downs}`.padStart(9);
    console.log(
      `${law.padEnd(44)}  ${attainment.toFixed(3).padStart(8)}  ${gpuHours.toFixed(2).padStart(5)}  ${moves}  ${ttftP99Ms.toFixed(0).padStart(11)}`,
    );
  }
}
