/**
 * Numbers the (worker, data-parallel rank) pairs that a router knows, densely from 0, so that index, load and cost use
 * them in typed arrays. A number belongs to its pair until the pair is dropped. Another pair gets a dropped number only
 * after `recycle`, which the index calls once no holding of the old pair is left.
 */
export class RankTable {
  readonly #byWorker = new Map<string, Map<number, number>>();
  readonly #workerIds: (string | undefined)[] = [];
  readonly #dpRanks: number[] = [];
  readonly #free: number[] = [];

  /** Largest number ever used, plus one. */
  get capacity(): number {
    return this.#workerIds.length;
  }

  /** Returns the number of the pair, a new one if it has none. `workerId` is the instance id, lower-case hex. */
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

  /** Returns the numbers of all ranks of a worker. */
  ranksOf(workerId: string): readonly number[] {
    return [...(this.#byWorker.get(workerId)?.values() ?? [])];
  }

  /** Returns the worker of the rank; undefined once the pair was dropped. */
  workerIdOf(rank: number): string | undefined {
    return this.#workerIds[rank];
  }

  dpRankOf(rank: number): number {
    return this.#dpRanks[rank] ?? 0;
  }

  /** Removes the pair from the table. Its number is not used again before `recycle`. Idempotent. */
  drop(rank: number): void {
    const workerId = this.#workerIds[rank];
    if (workerId === undefined) return;
    const ranks = this.#byWorker.get(workerId);
    ranks?.delete(this.dpRankOf(rank));
    if (ranks?.size === 0) this.#byWorker.delete(workerId);
    this.#workerIds[rank] = undefined;
  }

  /**
   * Makes a dropped number, to which nothing refers any more, usable again. Idempotent. Has no effect on the number of
   * a present pair.
   */
  recycle(rank: number): void {
    if (rank >= this.capacity || this.#workerIds[rank] !== undefined || this.#free.includes(rank)) return;
    this.#free.push(rank);
  }
}
