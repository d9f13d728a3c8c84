import { roomy } from '../../records/index.ts';

/**
 * Number of values as which the mean of the pool counts for a rank. Each of the first values of a rank thus counts more
 * than a later one, and a slow rank is known after a few requests.
 */
const START_VALUES = 10;
/** Most that one value counts, relative to the earlier ones of its rank, and the inverse of the least. */
const VALUE_RATIO_MAX = 2;
const FACTOR_MAX = 8;
/** Factor below which a rank counts as fast as the mean. Prompts and batches differ by as much. */
const BAND = 1.2;
/**
 * Share of ranks beyond the band from which the ranks within it count by their own factors, too: the mean of a pool
 * with several speeds is the speed of none.
 */
const MIXED_SHARE = 0.25;

/**
 * Factors by which work takes longer on each rank than on average in its pool. Bounded: a few numbers for each rank.
 */
export class RankFactors {
  /** Factor by rank number; 1 if the rank is about as fast as the mean. */
  factors = new Float64Array(0);
  /** Factors without the band. */
  #seen = new Float64Array(0);
  /** Number of values from which each rank has learned. */
  #values = new Float64Array(0);
  /** Number of ranks that have learned. */
  #known = 0;
  /** Number of ranks beyond the band. */
  #apart = 0;
  #isMixed = false;

  /** Makes room for rank numbers below `capacity`. */
  reserve(capacity: number): void {
    const before = this.factors.length;
    this.factors = roomy(this.factors, capacity).fill(1, before);
    this.#seen = roomy(this.#seen, capacity).fill(1, before);
    this.#values = roomy(this.#values, capacity);
  }

  /** Forgets a rank whose number another one will get. */
  forget(rank: number): void {
    if (this.#values[rank] === 0) return;
    this.#known--;
    this.#values[rank] = 0;
    this.#set(rank, 1);
  }

  /**
   * Learns the time that work took on a rank, relative to the mean of the pool. The factor moves by `gain` of the
   * distance, in logarithms, or more if the rank has learned from few values.
   */
  learn(rank: number, seen: number, gain: number): void {
    if (this.#values[rank] === 0) this.#known++;
    const weight = Math.max(gain, 1 / (START_VALUES + (this.#values[rank] as number)));
    this.#values[rank]!++;
    const before = this.#seen[rank] as number;
    this.#set(rank, within(FACTOR_MAX, before * within(VALUE_RATIO_MAX, seen / before) ** weight));
  }

  #set(rank: number, seen: number): void {
    this.#apart += Number(isApart(seen)) - Number(isApart(this.#seen[rank] as number));
    this.#seen[rank] = seen;
    const isMixed = this.#apart > 0 && this.#apart >= MIXED_SHARE * this.#known;
    if (isMixed === this.#isMixed) {
      this.#show(rank);
      return;
    }
    this.#isMixed = isMixed;
    for (let each = 0; each < this.factors.length; each++) this.#show(each);
  }

  #show(rank: number): void {
    const seen = this.#seen[rank] as number;
    this.factors[rank] = this.#isMixed || isApart(seen) ? seen : 1;
  }
}

function isApart(seen: number): boolean {
  return seen >= BAND || seen * BAND <= 1;
}

/** Returns the ratio, but at least 1 / `most` and at most `most`. */
export function within(most: number, ratio: number): number {
  return Math.min(most, Math.max(1 / most, ratio));
}
