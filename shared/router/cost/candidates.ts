import { growNumbers, growWords } from '../load/grow.ts';

/**
 * The ranks a request may go to and what each would cost, in arrays that are reused from request to request. The first
 * `count` entries are valid.
 */
export class Candidates {
  /** Rank numbers, in the order of worker id and rank. */
  ranks: Uint32Array<ArrayBuffer> = new Uint32Array(64);
  costs: Float64Array<ArrayBuffer> = new Float64Array(64);
  /** Active prefill tokens of each, decayed to the present. */
  prefillTokens: Float64Array<ArrayBuffer> = new Float64Array(64);
  /** Prompt tokens that each has cached, whatever the tier. */
  cachedTokens: Float64Array<ArrayBuffer> = new Float64Array(64);
  count = 0;

  reserve(count: number): void {
    if (count <= this.ranks.length) return;
    this.ranks = growWords(this.ranks, count);
    this.costs = growNumbers(this.costs, count);
    this.prefillTokens = growNumbers(this.prefillTokens, count);
    this.cachedTokens = growNumbers(this.cachedTokens, count);
  }

  add(rank: number): void {
    this.reserve(this.count + 1);
    this.ranks[this.count++] = rank;
  }

  addAll(ranks: Uint32Array): void {
    this.reserve(this.count + ranks.length);
    this.ranks.set(ranks, this.count);
    this.count += ranks.length;
  }
}
