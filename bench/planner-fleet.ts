import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { parsePlannerConfig } from '../shared/planner/config.ts';
import { ForesightPolicy, PlannerPolicy } from '../shared/simulate/scaling/policies.ts';
import type { ScalingOptions, ScalingPolicy } from '../shared/simulate/scaling/scaling.ts';
import type { SimulationOptions } from '../shared/simulate/simulate.ts';
import { parseTrace } from '../shared/simulate/trace.ts';
import type { Workload } from '../shared/simulate/workload.ts';
import { engineOf, readWorkload, routingOf } from '../test/support/planner/reference-fleet.ts';
import { BURSTS, burstWorkload } from './planner-bursts.ts';

const BURST_NAMES = Object.keys(BURSTS) as readonly (keyof typeof BURSTS)[];
const START_MS = 180_000;
const GPU_PRICE = 2;
export const WORKLOADS = ['step', 'diurnal', 'burst', ...BURST_NAMES, 'night', 'apart'] as const;
export type WorkloadName = (typeof WORKLOADS)[number];

export interface FleetCase {
  readonly name: string;
  /** Keys of the planner; undefined = foresight. */
  readonly settings?: object;
  /** Options of the fleet; `plannedStartMs` is the start time that the planner assumes. */
  readonly fleet?: Partial<ScalingOptions> & { readonly plannedStartMs?: number };
  /** @default 1 */
  readonly seed?: number;
}

export interface FleetFigures {
  readonly name: string;
  readonly attainment: number;
  readonly gpuHours: number;
  readonly dollars: number;
  readonly ups: number;
  readonly downs: number;
  readonly ttftP99Ms: number;
}

export function readAnyWorkload(name: WorkloadName): Workload {
  if (name === 'night') return nights();
  if (name in BURSTS) return burstWorkload(BURSTS[name as keyof typeof BURSTS]);
  return readWorkload(name === 'apart' ? 'diurnal' : (name as 'step' | 'diurnal' | 'burst'));
}

/** The quiet quarters of an hour before and after the step, with half an hour of silence between them. */
function nights(): Workload {
  const lines = gunzipSync(readFileSync('test/fixtures/planner/workloads/step.jsonl.gz')).toString().split('\n');
  const isQuiet = (line: string): boolean => {
    const { timestamp } = JSON.parse(line) as { readonly timestamp: number };
    return timestamp < 900_000 || timestamp >= 2_700_000;
  };
  return parseTrace(lines.filter((line) => line !== '' && isQuiet(line)).join('\n'), 512);
}

/** @param isApart prompts are computed by a pool of their own */
export function fleetOptions(each: FleetCase, workload: Workload, isApart: boolean): SimulationOptions {
  const { plannedStartMs = START_MS, ...fleet } = each.fleet ?? {};
  const transfer = { bytesPerToken: 100_000, bandwidthGbps: 50, movesMissingOnly: true };
  return {
    workload,
    workers: 1,
    dataParallelSize: 1,
    engine: engineOf(),
    ...(isApart && { prefill: { workers: 1, dataParallelSize: 1, engine: engineOf(), transfer } }),
    routing: routingOf(),
    arrivalSpeedup: 1,
    kvEventLagMs: 0,
    seed: each.seed ?? 1,
    scaling: {
      policy: policyOf(each, workload, isApart, plannedStartMs),
      startMs: START_MS,
      ttftTargetMs: 500,
      itlTargetMs: 50,
      gpuPrice: GPU_PRICE,
      ...fleet,
    },
  };
}

function policyOf({ settings }: FleetCase, workload: Workload, isApart: boolean, startMs: number): ScalingPolicy {
  if (settings === undefined) return new ForesightPolicy(workload, 14, startMs);
  const config = parsePlannerConfig({ mode: isApart ? 'disagg' : 'agg', max_gpu_budget: 16, ...settings });
  const engine = { gpus: 1, maxKvTokens: 262_144, maxNumSeqs: 256, maxNumBatchedTokens: 8192, contextLength: 262_144 };
  const engines = isApart ? { prefill: engine, decode: engine } : { decode: engine };
  return new PlannerPolicy({ config, engines }, startMs);
}
