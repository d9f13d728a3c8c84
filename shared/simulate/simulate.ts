import assert from 'node:assert';
import { seededRandom } from '../clock/index.ts';
import type { SchedulerOptions, TransferModel } from '../engines/index.ts';
import { loadAware } from '../scheduler/index.ts';
import type { Ec2ScalingOptions } from './ec2/ec2-scaling.ts';
import { Ec2Scaling } from './ec2/ec2-scaling.ts';
import { type OptionRecord, optionRecords } from './ec2/option-record.ts';
import { Fleet } from './fleet.ts';
import { hitCeiling } from './hit-ceiling.ts';
import { DirectRouters, SimpleRouters, StatelessRouters } from './indexless-routers.ts';
import { KvRouters } from './kv-routers.ts';
import type { GapHistogram } from './percentiles.ts';
import type { CpuWorkers, PoolOptions, PoolView, RoutedPool, RouterBench, RoutingOptions } from './routers.ts';
import type { FleetScaling, ScalingPoint } from './scaling/fleet-scaling.ts';
import { Scaling, type ScalingOptions } from './scaling/scaling.ts';
import type { SimulatedRank, SimulatedRequest } from './simulated-rank.ts';
import type { Workload } from './workload.ts';

/** Workers that compute prompts for others. */
interface PrefillPoolOptions {
  readonly workers: number;
  /** Ranks of a worker. */
  readonly dataParallelSize: number;
  /** Its blocks are as large as those of the decode workers. */
  readonly engine: SchedulerOptions;
  /** The link over which blocks get to decode workers. */
  readonly transfer: TransferModel;
}

export interface SimulationOptions {
  readonly workload: Workload;
  /** Workers that only compute prompts; the others only make answers. @default every worker does both */
  readonly prefill?: PrefillPoolOptions | undefined;
  readonly workers: number;
  /** Ranks of a worker. */
  readonly dataParallelSize: number;
  readonly engine: SchedulerOptions;
  /** The first workers are CPUs. @default none is */
  readonly cpus?: CpuWorkers | undefined;
  /** Speeds of the workers of each pool in turn, as factors. @default all have that of their engine */
  readonly workerSpeeds?: readonly number[] | undefined;
  /** Longest prompt with its answer; longer requests are refused. @default what a rank can hold */
  readonly contextTokensMax?: number | undefined;
  readonly routing: RoutingOptions;
  /** Divides arrival times. */
  readonly arrivalSpeedup: number;
  /** Requests under way at most; undefined = the workload's own arrival times. */
  readonly concurrency?: number | undefined;
  readonly kvEventLagMs: number;
  /** Workers come and go; made for one run. @default those that there are stay */
  readonly scaling?: ScalingOptions | Ec2ScalingOptions | undefined;
  /** Seed of all chance: ties, sampling, random modes. */
  readonly seed: number;
}

/** Times of requests in two pools, request by request; NaN for refused ones. */
interface Stages {
  /** From the arrival at a router to the end of the prefill. */
  readonly prefillMs: Float64Array;
  /** Time in the router's queue for a decode worker. */
  readonly decodeQueuedMs: Float64Array;
  /** Time that the blocks of the prompt took to cross. */
  readonly transferMs: Float64Array;
}

/** Result of a simulation, request by request in the order of the workload. Times of a refused request are NaN. */
export interface Simulation {
  readonly options: SimulationOptions;
  readonly arrivedMs: Float64Array;
  readonly ttftMs: Float64Array;
  readonly e2eMs: Float64Array;
  /** Time in routers' queues. */
  readonly queuedMs: Float64Array;
  /** The stages of requests whose prompts are computed apart; undefined in other fleets. */
  readonly stages: Stages | undefined;
  /** Prompt tokens found in the cache at the first admission. */
  readonly cachedTokens: Uint32Array;
  /** The same over all admissions: a preempted request finds its own blocks again. */
  readonly reusedTokens: Float64Array;
  readonly preemptions: Uint32Array;
  /** Place among `ranks` of the one that made the answer; -1 for a refused request. */
  readonly answeredBy: Int32Array;
  readonly gaps: GapHistogram;
  readonly ranks: readonly SimulatedRank[];
  /** How workers came and went. */
  readonly scaling: ScalingRecord | undefined;
  /** Requests longer than what a rank can hold. */
  readonly refused: number;
  /** From the start to the end of the last request. */
  readonly durationMs: number;
  /** Hit rate of one cache as large as all together, and of an unbounded one. */
  readonly hitCeiling: number;
  readonly hitCeilingUnbounded: number;
}

/**
 * Replays `options.workload` on a fleet of mock engines behind the product's own routers, in virtual time. The same
 * options give the same result.
 */
export function simulate(options: SimulationOptions): Simulation {
  const { fleet, result } = prepare(options);
  fleet.run();
  return result();
}

/** Does the same for a fleet that may have a planner, whose calls are promises. */
export async function simulatePlanned(options: SimulationOptions): Promise<Simulation> {
  const { fleet, result } = prepare(options);
  await fleet.runPlanned();
  return result();
}

/** Opens a simulation. `result` sums it up once its fleet has run. */
function prepare(options: SimulationOptions): { readonly fleet: Fleet; result(): Simulation } {
  const { contextTokensMax, concurrency, kvEventLagMs, scaling, seed, prefill } = options;
  const workload = speedUp(options.workload, options.arrivalSpeedup);
  const records = openRecords(workload.size, prefill !== undefined);
  const pools = poolsOf(options);
  let durationMs = 0;
  const fleet = new Fleet(
    workload,
    {
      pools,
      transfer: prefill?.transfer,
      contextTokensMax,
      concurrency,
      kvEventLagMs,
      scaling,
      random: seededRandom(seed),
    },
    (view, pool) => createRouters(view, { ...options.routing, ...pool, seed }),
    (request, nowMs) => {
      durationMs = nowMs;
      record(records, request, nowMs);
    },
  );
  const [{ workers, dataParallelSize, engine }] = pools; // whose caches prompts are looked up in
  const capacityBlocks = workers * dataParallelSize * engine.numGpuBlocks;
  const result = (): Simulation => ({
    options,
    ...records,
    gaps: fleet.gaps,
    ranks: fleet.ranks,
    scaling: fleet.scaling && scalingRecord(fleet, fleet.scaling, durationMs),
    refused: fleet.refused,
    durationMs,
    hitCeiling: hitCeiling(workload, capacityBlocks, engine.blockSizeTokens),
    hitCeilingUnbounded: hitCeiling(workload, Number.POSITIVE_INFINITY, engine.blockSizeTokens),
  });
  return { fleet, result };
}

/** How workers came and went. */
export interface ScalingRecord {
  readonly points: readonly ScalingPoint[];
  readonly ups: number;
  readonly downs: number;
  readonly interruptions: number;
  readonly failures: number;
  readonly moved: number;
  /** Paid time of all GPUs, spares that waited among them. */
  readonly gpuMs: number;
  /** The options of a fleet on EC2, and what it did from zero; undefined for other fleets. */
  readonly ec2?: Ec2Record | undefined;
}

/** Results of a fleet on EC2. */
interface Ec2Record {
  readonly options: readonly OptionRecord[];
  /** Seconds from a request without a worker to a worker that served. */
  readonly fromZeroS: readonly number[];
  /** Calls to Auto Scaling. */
  readonly calls: number;
}

function scalingRecord(fleet: Fleet, scaling: FleetScaling, durationMs: number): ScalingRecord {
  const { points, ups, downs, interruptions, failures, moved } = scaling;
  const counts = { points, ups, downs, interruptions, failures, moved };
  if (scaling instanceof Ec2Scaling) {
    const { fromZeroS, calls } = scaling;
    const ec2 = { options: optionRecords(scaling, durationMs), fromZeroS, calls: calls.count };
    return { ...counts, gpuMs: scaling.gpuMs, ec2 };
  }
  const warmMs = scaling instanceof Scaling ? scaling.warmMs : 0;
  return { ...counts, gpuMs: paidMs(fleet, durationMs) + warmMs };
}

/** Returns the paid time of the GPUs of all workers. */
function paidMs({ pools }: Fleet, durationMs: number): number {
  let gpuMs = 0;
  for (const { workers, options } of pools) {
    const ms = workers.reduce((total, { startedMs, goneMs = durationMs }) => total + goneMs - startedMs, 0);
    gpuMs += ms * options.dataParallelSize;
  }
  return gpuMs;
}

function poolsOf({
  prefill,
  workers,
  dataParallelSize,
  engine,
  cpus,
  workerSpeeds: speeds,
}: SimulationOptions): readonly [PoolOptions, ...PoolOptions[]] {
  if (prefill === undefined) return [{ role: 'aggregated', workers, dataParallelSize, engine, cpus, speeds }];
  assert(prefill.engine.blockSizeTokens === engine.blockSizeTokens, 'blocks cross between pools as they are');
  return [
    { ...prefill, role: 'prefill', speeds },
    { role: 'decode', workers, dataParallelSize, engine, cpus, speeds },
  ];
}

function speedUp(workload: Workload, arrivalSpeedup: number): Workload {
  return arrivalSpeedup === 1
    ? workload
    : { ...workload, arrivalMs: workload.arrivalMs.map((arrivalMs) => arrivalMs / arrivalSpeedup) };
}

type Records = Pick<
  Simulation,
  | 'arrivedMs'
  | 'ttftMs'
  | 'e2eMs'
  | 'queuedMs'
  | 'cachedTokens'
  | 'reusedTokens'
  | 'preemptions'
  | 'answeredBy'
  | 'stages'
>;

function openRecords(size: number, isApart: boolean): Records {
  const times = (): Float64Array => new Float64Array(size).fill(Number.NaN);
  return {
    arrivedMs: new Float64Array(size),
    ttftMs: times(),
    e2eMs: times(),
    queuedMs: times(),
    stages: isApart ? { prefillMs: times(), decodeQueuedMs: times(), transferMs: times() } : undefined,
    cachedTokens: new Uint32Array(size),
    reusedTokens: new Float64Array(size),
    preemptions: new Uint32Array(size),
    answeredBy: new Int32Array(size).fill(-1),
  };
}

/** @param request its last stage */
function record(records: Records, request: SimulatedRequest, nowMs: number): void {
  const { index, prefill, firstTokenMs } = request;
  const first = prefill ?? request;
  records.arrivedMs[index] = first.arrivedMs;
  if (Number.isNaN(firstTokenMs)) return; // refused
  records.ttftMs[index] = firstTokenMs - first.arrivedMs;
  records.e2eMs[index] = nowMs - first.arrivedMs;
  records.queuedMs[index] = first.dispatchedMs - first.arrivedMs;
  records.cachedTokens[index] = Math.max(0, first.cachedTokens);
  records.reusedTokens[index] = first.reusedTokens;
  records.preemptions[index] = first.preemptions;
  records.answeredBy[index] = request.rank?.at ?? -1;
  const { stages } = records;
  if (prefill === undefined || stages === undefined) return;
  const decodeQueuedMs = request.dispatchedMs - request.arrivedMs;
  records.queuedMs[index]! += decodeQueuedMs;
  records.preemptions[index]! += request.preemptions;
  stages.prefillMs[index] = prefill.firstTokenMs - prefill.arrivedMs;
  stages.decodeQueuedMs[index] = decodeQueuedMs;
  stages.transferMs[index] = request.transferMs;
}

function createRouters(pool: PoolView, options: RoutedPool): RouterBench {
  const { mode } = options;
  if (mode === 'stateless') return new StatelessRouters(pool, options);
  if (mode === 'kv') return new KvRouters(pool, options);
  if (mode === 'load-aware') return new KvRouters(pool, { ...options, kv: loadAware(options.kv) });
  if (mode === 'direct') return new DirectRouters(pool, options);
  return new SimpleRouters(pool, { ...options, mode });
}
