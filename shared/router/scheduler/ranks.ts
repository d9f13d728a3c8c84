import { grown } from '../../records/index.ts';
import type { SchedulableWorker } from './types.ts';

/**
 * Numbers the (worker, data-parallel rank) pairs that a router knows, densely from 0, so that index, load and cost address
 * them in typed arrays. A number stays with its pair until the pair is dropped; a dropped number is given to
 * another pair only after `recycle`, which the index calls once no holding of the old pair is left.
 */
export class RankTable {
  readonly #byWorker = new Map<string, Map<number, number>>();
  readonly #workerIds: (string | undefined)[] = [];
  readonly #dpRanks: number[] = [];
  readonly #free: number[] = [];

  /** Largest number ever given out, plus one. */
  get capacity(): number {
    return this.#workerIds.length;
  }

  /** The number of the pair, a new one if it has none. `workerId` is the instance id, lower-case hex. */
  intern(workerId: string, dpRank: number): number {
    const known = this.find(workerId, dpRank);
    if (known !== undefined) return known;
    const rank = this.#free.pop() ?? this.#workerIds.length;
    this.#workerIds[rank] = workerId;
    this.#dpRanks[rank] = dpRank;
    const ranks = this.#byWorker.get(workerId);
    if (ranks === undefined) this.#byWorker.set(workerId, new Map([[dpRank, rank]]));
    else ranks.set(dpRank, rank);
    return rank;
  }

  find(workerId: string, dpRank: number): number | undefined {
    return this.#byWorker.get(workerId)?.get(dpRank);
  }

  /** Numbers of all ranks of a worker. */
  ranksOf(workerId: string): readonly number[] {
    return [...(this.#byWorker.get(workerId)?.values() ?? [])];
  }

  /** Undefined once the pair was dropped. */
  workerIdOf(rank: number): string | undefined {
    return this.#workerIds[rank];
  }

  dpRankOf(rank: number): number {
    return this.#dpRanks[rank] ?? 0;
  }

  /** Takes the pair off the table; its number is not given out again before `recycle`. Idempotent. */
  drop(rank: number): void {
    const workerId = this.#workerIds[rank];
    if (workerId === undefined) return;
    const ranks = this.#byWorker.get(workerId);
    ranks?.delete(this.dpRankOf(rank));
    if (ranks?.size === 0) this.#byWorker.delete(workerId);
    this.#workerIds[rank] = undefined;
  }

  /** Nothing refers to the dropped number any more. Idempotent, and nothing happens to the number of a living pair. */
  recycle(rank: number): void {
    if (rank >= this.capacity || this.#workerIds[rank] !== undefined || this.#free.includes(rank)) return;
    this.#free.push(rank);
  }
}

/** A worker of a pool with the numbers of its ranks. */
export interface PooledWorker extends SchedulableWorker {
  /** Rank numbers, in the order of data-parallel rank. */
  readonly ranks: readonly number[];
}

/** Tokens that an engine which does not say takes in one pass: so many that it is never full. */
const BATCHED_TOKENS_UNKNOWN = 10_000_000;

/**
 * The workers of a pool, in an order that depends on nothing but their ids, so that a seeded router decides alike however
 * its pool came together.
 */
export class WorkerSet {
  readonly #ranks: RankTable;
  #byId = new Map<string, PooledWorker>();
  #workers: readonly PooledWorker[] = [];
  #allRanks = new Uint32Array(0);
  #ofRank: (PooledWorker | undefined)[] = [];

  constructor(ranks: RankTable) {
    this.#ranks = ranks;
  }

  /** In the order of worker id. */
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

  batchedTokensOf(rank: number): number {
    return this.#ofRank[rank]?.maxNumBatchedTokens ?? BATCHED_TOKENS_UNKNOWN;
  }

  /** Replaces the pool. @returns numbers of ranks that are gone; they are off the rank table */
  replace(workers: readonly SchedulableWorker[]): readonly number[] {
    const before = this.#allRanks;
    const sorted = [...workers].sort((a, b) => compareIds(a.id, b.id));
    this.#workers = sorted.map((worker) => this.#pooled(worker));
    this.#byId = new Map(this.#workers.map((pooled) => [pooled.id, pooled]));
    this.#allRanks = Uint32Array.from(this.#workers.flatMap(({ ranks }) => ranks));
    this.#ofRank = [];
    for (const pooled of this.#workers) for (const rank of pooled.ranks) this.#ofRank[rank] = pooled;
    const gone = [...before].filter((rank) => this.#ofRank[rank] === undefined);
    for (const rank of gone) this.#ranks.drop(rank);
    return gone;
  }

  #pooled(worker: SchedulableWorker): PooledWorker {
    const { id, dataParallelStartRank, dataParallelSize: length, taints, totalKvBlocks, maxNumBatchedTokens } = worker;
    const ranks = Array.from({ length }, (_, offset) => this.#ranks.intern(id, dataParallelStartRank + offset));
    const dataParallelSize = length;
    return { id, dataParallelStartRank, dataParallelSize, taints, totalKvBlocks, maxNumBatchedTokens, ranks };
  }
}

/** Hex ids without leading zeros, as the numbers they are. */
export function compareIds(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** `list` with room for `length`: itself, or a copy of at least twice the size. */
export function roomy<List extends Uint32Array | Int32Array | Float64Array>(list: List, length: number): List {
  return length <= list.length ? list : grown(list, Math.max(length, 2 * list.length));
}
