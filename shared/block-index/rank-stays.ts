/**
 * Numbers the stays of ranks among the touched blocks. A stay begins with the first block of a rank and ends when the
 * rank is removed. A pair that gets the same rank number later has a stay of its own. A number is reused once a sweep
 * has found it nowhere.
 */
export class RankStays {
  readonly #ofRank: (number | undefined)[] = [];
  /** Rank by stay; undefined = ended or unused. */
  readonly #ranks: (number | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #ended: number[] = [];

  /** Returns the stay of the rank, and begins one if there is none. */
  open(rank: number): number {
    const present = this.#ofRank[rank];
    if (present !== undefined) return present;
    const stay = this.#free.pop() ?? this.#ranks.length;
    this.#ofRank[rank] = stay;
    this.#ranks[stay] = rank;
    return stay;
  }

  /** Returns the stay of the rank; undefined if it has none. */
  find(rank: number): number | undefined {
    return this.#ofRank[rank];
  }

  /** Returns the rank of a stay; undefined once the stay has ended. */
  rankOf(stay: number): number | undefined {
    return this.#ranks[stay];
  }

  /** Ends the stay of the rank, if it has one. */
  end(rank: number): void {
    const stay = this.#ofRank[rank];
    if (stay === undefined) return;
    this.#ofRank[rank] = undefined;
    this.#ranks[stay] = undefined;
    this.#ended.push(stay);
  }

  /** Number of stays that have ended and may still be in records. */
  get endedCount(): number {
    return this.#ended.length;
  }

  /** Makes the first `count` numbers of ended stays usable again. */
  recycle(count: number): void {
    this.#free.push(...this.#ended.splice(0, count));
  }
}
