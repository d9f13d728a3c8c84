/**
 * Numbers the (worker, data-parallel rank) pairs that a router knows, densely from 0, so that index, load and cost
 * address them in typed arrays. A number stays with its pair until the pair is dropped; a dropped number is given to
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
