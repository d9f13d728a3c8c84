import type { SchedulerOptions } from '../engines/mocker/index.ts';
import { Fleet } from './fleet.ts';
import type { GapHistogram } from './gap-histogram.ts';
import { hitCeiling } from './hit-ceiling.ts';
import { createRouters, type RoutingOptions } from './routers.ts';
import type { SimulatedRank } from './simulated-rank.ts';
import type { SimulatedRequest } from './simulated-request.ts';
import type { Workload } from './workload.ts';

export interface SimulationOptions {
  readonly workload: Workload;
  readonly workers: number;
  /** Ranks of a worker. */
  readonly dataParallelSize: number;
  readonly engine: SchedulerOptions;
  /** Longest prompt with its answer; longer requests are refused. @default what a rank can hold */
  readonly contextTokensMax?: number | undefined;
  readonly routing: RoutingOptions;
  /** Divides arrival times. */
  readonly arrivalSpeedup: number;
  /** Requests under way at most; undefined = the workload's own arrival times. */
  readonly concurrency?: number | undefined;
  readonly kvEventLagMs: number;
  /** Of all chance: ties, sampling, random modes. */
  readonly seed: number;
}

/** What happened, request by request in the order of the workload. Times of a refused request are NaN. */
export interface Simulation {
  readonly options: SimulationOptions;
  readonly arrivedMs: Float64Array;
  readonly ttftMs: Float64Array;
  readonly e2eMs: Float64Array;
  /** Time in the router's queue. */
  readonly queuedMs: Float64Array;
  /** Prompt tokens found in the cache at the first admission. */
  readonly cachedTokens: Uint32Array;
  /** The same over all admissions: a preempted request finds its own blocks again. */
  readonly reusedTokens: Float64Array;
  readonly preemptions: Uint32Array;
  readonly gaps: GapHistogram;
  readonly ranks: readonly SimulatedRank[];
  /** Requests longer than what a rank can hold. */
  readonly refused: number;
  /** From the start to the end of the last request. */
  readonly durationMs: number;
  /** Hit rate of one cache as large as all together, and of an unbounded one. */
  readonly hitCeiling: number;
  readonly hitCeilingUnbounded: number;
}

/**
 * Replays `options.workload` on a fleet of mock engines behind the product's own routers, in virtual time. The same options
 * give the same result.
 */
export function simulate(options: SimulationOptions): Simulation {
  const { engine, workers, dataParallelSize, contextTokensMax, concurrency, kvEventLagMs, seed } = options;
  const workload = speedUp(options.workload, options.arrivalSpeedup);
  const records = openRecords(workload.size);
  let durationMs = 0;
  const fleet = new Fleet(
    workload,
    { engine, workers, dataParallelSize, contextTokensMax, concurrency, kvEventLagMs },
    (own) => createRouters(own, { ...options.routing, engine, workers, dataParallelSize, seed }),
    (request, nowMs) => {
      durationMs = nowMs;
      record(records, request, nowMs);
    },
  );
  fleet.run();
  const capacityBlocks = workers * dataParallelSize * engine.numGpuBlocks;
  return {
    options,
    ...records,
    gaps: fleet.gaps,
    ranks: fleet.ranks,
    refused: fleet.refused,
    durationMs,
    hitCeiling: hitCeiling(workload, capacityBlocks, engine.blockSizeTokens),
    hitCeilingUnbounded: hitCeiling(workload, Number.POSITIVE_INFINITY, engine.blockSizeTokens),
  };
}

function speedUp(workload: Workload, arrivalSpeedup: number): Workload {
  return arrivalSpeedup === 1
    ? workload
    : { ...workload, arrivalMs: workload.arrivalMs.map((arrivalMs) => arrivalMs / arrivalSpeedup) };
}

type Records = Pick<
  Simulation,
  'arrivedMs' | 'ttftMs' | 'e2eMs' | 'queuedMs' | 'cachedTokens' | 'reusedTokens' | 'preemptions'
>;

function openRecords(size: number): Records {
  return {
    arrivedMs: new Float64Array(size),
    ttftMs: new Float64Array(size).fill(Number.NaN),
    e2eMs: new Float64Array(size).fill(Number.NaN),
    queuedMs: new Float64Array(size).fill(Number.NaN),
    cachedTokens: new Uint32Array(size),
    reusedTokens: new Float64Array(size),
    preemptions: new Uint32Array(size),
  };
}

function record(records: Records, request: SimulatedRequest, nowMs: number): void {
  const { index } = request;
  records.arrivedMs[index] = request.arrivedMs;
  if (Number.isNaN(request.firstTokenMs)) return; // refused
  records.ttftMs[index] = request.firstTokenMs - request.arrivedMs;
  records.e2eMs[index] = nowMs - request.arrivedMs;
  records.queuedMs[index] = request.dispatchedMs - request.arrivedMs;
  records.cachedTokens[index] = Math.max(0, request.cachedTokens);
  records.reusedTokens[index] = request.reusedTokens;
  records.preemptions[index] = request.preemptions;
}
