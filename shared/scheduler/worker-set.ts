import type { RankTable } from '../block-index/index.ts';
import type { SchedulableWorker } from './types.ts';

/** A worker of a pool with the numbers of its ranks. */
export interface PooledWorker extends SchedulableWorker {
  /** Rank numbers, in the order of data-parallel rank. */
  readonly ranks: readonly number[];
}

/** Tokens that an engine takes in one pass if it does not say: enough that it is never full. */
const BATCHED_TOKENS_UNKNOWN = 10_000_000;

/**
 * The workers of a pool, in an order that depends only on their ids. So a seeded router decides the same, in whatever
 * order its pool came together.
 */
export class WorkerSet {
  readonly #ranks: RankTable;
  #byId = new Map<string, PooledWorker>();
  #workers: readonly PooledWorker[] = [];
  #allRanks = new Uint32Array(0);
  #ofRank: (PooledWorker | undefined)[] = [];
  #requestsMax = new Float64Array(0);

  constructor(ranks: RankTable) {
    this.#ranks = ranks;
  }

  /** Workers in the order of their ids. */
  get workers(): readonly PooledWorker[] {
    return this.#workers;
  }

  /** Rank numbers of all workers, in the order of worker id and rank. */
  get allRanks(): Uint32Array {
    return this.#allRanks;
  }

  find(workerId: string): PooledWorker | undefined {
    return this.#byId.get(workerId);
  }

  ofRank(rank: number): PooledWorker | undefined {
    return this.#ofRank[rank];
  }

  /** Most requests that each rank runs at once; infinity if its worker has not said how many, or 0. By rank number. */
  get requestsMax(): Float64Array {
    return this.#requestsMax;
  }

  batchedTokensOf(rank: number): number {
    return this.#ofRank[rank]?.maxNumBatchedTokens ?? BATCHED_TOKENS_UNKNOWN;
  }

  /** Replaces the pool. @returns numbers of ranks that are gone and no longer on the rank table */
  replace(workers: readonly SchedulableWorker[]): readonly number[] {
    const before = this.#allRanks;
    const sorted = [...workers].sort((a, b) => compareIds(a.id, b.id));
    this.#workers = sorted.map((worker) => this.#pooled(worker));
    this.#byId = new Map(this.#workers.map((pooled) => [pooled.id, pooled]));
    this.#allRanks = Uint32Array.from(this.#workers.flatMap(({ ranks }) => ranks));
    this.#ofRank = [];
    for (const pooled of this.#workers) for (const rank of pooled.ranks) this.#ofRank[rank] = pooled;
    this.#requestsMax = Float64Array.from(this.#ofRank, (worker) => worker?.maxNumSeqs || Number.POSITIVE_INFINITY);
    const gone = [...before].filter((rank) => this.#ofRank[rank] === undefined);
    for (const rank of gone) this.#ranks.drop(rank);
    return gone;
  }

  #pooled(worker: SchedulableWorker): PooledWorker {
    const { id, dataParallelStartRank, dataParallelSize: length, taints } = worker;
    const { totalKvBlocks, maxNumBatchedTokens, maxNumSeqs } = worker;
    const ranks = Array.from({ length }, (_, offset) => this.#ranks.intern(id, dataParallelStartRank + offset));
    const dataParallelSize = length;
    const limits = { totalKvBlocks, maxNumBatchedTokens, maxNumSeqs };
    return { id, dataParallelStartRank, dataParallelSize, taints, ...limits, ranks };
  }
}

/** Compares hex ids without leading zeros by their numeric value. */
export function compareIds(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}
