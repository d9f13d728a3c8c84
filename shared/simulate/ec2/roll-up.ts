import {
  AGGREGATED_RANKS_MAX,
  type AggregatedPool,
  NO_TRAFFIC,
  PASS_SAMPLES_MAX,
  type PoolName,
  packSortedKeys,
  type TrafficTotals,
  toPassRow,
  workerKey,
} from '../../protocol/index.ts';
import type { SimulatedWorker } from '../fleet-pool.ts';
import type { PoolOptions } from '../routers.ts';
import type { SimulatedRank, SimulatedRequest } from '../simulated-rank.ts';

type AnsweredRequest = Pick<SimulatedRequest, 'firstTokenMs' | 'dispatchedMs' | 'promptLength'> & {
  readonly prefill: Pick<SimulatedRequest, 'dispatchedMs'> | undefined;
};

/** Sums over the requests of a fleet, as its workers count them. */
export class Traffic {
  readonly #totals: Record<keyof TrafficTotals, number> = { ...NO_TRAFFIC };
  readonly #begun: Uint8Array;

  /** @param size requests of the workload */
  constructor(size: number) {
    this.#begun = new Uint8Array(size);
  }

  get totals(): TrafficTotals {
    return { ...this.#totals };
  }

  /** Notes that a request reaches a worker; one that moves is no new one. */
  began(index: number): void {
    if (this.#begun[index] === 1) return;
    this.#begun[index] = 1;
    this.#totals.started++;
  }

  answered(request: AnsweredRequest, outputTokens: number, nowMs: number): void {
    const first = request.prefill ?? request;
    const gaps = Math.max(0, outputTokens - 1);
    const totals = this.#totals;
    totals.completed++;
    totals.ttft_sum_s += Math.max(0, request.firstTokenMs - first.dispatchedMs) / 1000;
    totals.ttft_count++;
    totals.itl_sum_s += gaps === 0 ? 0 : (nowMs - request.firstTokenMs) / 1000;
    totals.itl_count += gaps;
    totals.isl_sum += request.promptLength;
    totals.isl_count++;
    totals.osl_sum += outputTokens;
    totals.osl_count++;
    totals.dur_sum_s += Math.max(0, nowMs - first.dispatchedMs) / 1000;
    totals.dur_count++;
  }
}

interface RolledWorker extends Pick<SimulatedWorker, 'number' | 'state'> {
  readonly ranks: readonly Pick<SimulatedRank, 'waiting' | 'load' | 'activeBlocks' | 'lastPass'>[];
}

export interface RolledPool {
  readonly pool: {
    readonly options: Pick<PoolOptions, 'role' | 'engine'>;
    readonly workers: readonly RolledWorker[];
  };
  readonly gpusPerReplica: number;
  instanceOf(worker: Pick<SimulatedWorker, 'number'>): string | undefined;
}

/** Returns the name of a pool in messages. */
export function nameOf({ options }: RolledPool['pool']): PoolName {
  return options.role === 'aggregated' ? 'agg' : options.role;
}

/**
 * Returns the part of a fleet's sums that one pool reports. Prompts count at the worker that answers.
 * Workers of prompts report only the time to the first token.
 */
export function shareOf({ options: { role } }: RolledPool['pool'], totals: TrafficTotals): TrafficTotals {
  if (role === 'aggregated') return totals;
  const { ttft_sum_s, ttft_count } = totals;
  return role === 'prefill' ? { ...NO_TRAFFIC, ttft_sum_s, ttft_count } : { ...totals, ttft_sum_s: 0, ttft_count: 0 };
}

/** Returns a pool as the process that aggregates its workers reports it. */
export function rollUp({ pool, gpusPerReplica, instanceOf }: RolledPool, totals: TrafficTotals): AggregatedPool {
  const { engine } = pool.options;
  const workers = pool.workers.filter(({ state }) => state === 'ready');
  const ranks = workers.flatMap((worker) => worker.ranks);
  const waiting = ranks.reduce((total, rank) => total + rank.waiting, 0);
  const passes = ranks.flatMap(({ lastPass }) => lastPass ?? []);
  const rows = passes.slice(0, AGGREGATED_RANKS_MAX);
  const used = ranks.reduce((total, rank) => total + rank.activeBlocks, 0);
  return {
    worker_keys: '',
    hosted_keys: packSortedKeys(workers.map((worker) => workerKey(`w${worker.number}`, instanceOf(worker)))),
    running: ranks.reduce((total, rank) => total + rank.load, 0) - waiting,
    waiting,
    behind: workers.filter(isBehind).length,
    kv_use: Math.min(1, used / Math.max(1, ranks.length * engine.numGpuBlocks)),
    totals,
    engine: {
      gpus: gpusPerReplica,
      kv_block_size: engine.blockSizeTokens,
      max_num_seqs: engine.maxNumSeqs,
      max_num_batched_tokens: engine.maxNumBatchedTokens,
      max_kv_tokens: engine.numGpuBlocks * engine.blockSizeTokens,
    },
    has_passes: workers.length > 0,
    engines: rows.map((pass) => [`w${pass.workerId}`, pass.dpRank, ...toPassRow(pass)]),
    samples: spread(passes, PASS_SAMPLES_MAX).map(toPassRow),
  };
}

function isBehind({ ranks }: RolledWorker): boolean {
  const waiting = ranks.reduce((total, rank) => total + rank.waiting, 0);
  return 2 * waiting > ranks.reduce((total, rank) => total + rank.load, 0);
}

/** Returns at most `count` values, evenly spread. */
function spread<T>(values: readonly T[], count: number): readonly T[] {
  const step = Math.max(1, values.length / count);
  return values.filter((_, at) => Math.floor(at / step) !== Math.floor((at - 1) / step));
}
