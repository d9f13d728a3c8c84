import assert from 'node:assert';
import { type Random, seededRandom } from '../clock/index.ts';

/** Texts that the prompts of a workload share: the instructions of agents or tenants, or documents. */
export interface SharedTextOptions {
  /** Different texts. */
  readonly count: number;
  /** Least tokens of a text. */
  readonly tokensMin: number;
  /** Most tokens of a text. Lengths are log-uniform from `tokensMin` to here. */
  readonly tokensMax: number;
  /** Exponent of Zipf's law: text `k` is drawn in proportion to `1 / k^skew`. 0 = all equally often. */
  readonly skew: number;
  /** Different texts with which one prompt begins, in the order of the draw. */
  readonly perPrompt: number;
}

const LENGTHS = 0x6c65_6e67;
const DRAWS = 0x6472_6177;

/**
 * Draws the shared beginnings of prompts. A text has whole segments, at least one. An id stands for a segment with all
 * that precedes it, so a text after another one has other ids than at the head of a prompt:
 *
 *     A B   a0 a1 b0 b1
 *     B A   b2 b3 a2 a3      shares nothing with the first
 *     A C   a0 a1 c0         shares A with the first
 */
export class SharedTexts {
  readonly #options: SharedTextOptions;
  readonly #random: Random;
  readonly #newId: () => number;
  /** Segments of each text. */
  readonly #segments: readonly number[];
  /** Chance of each text and all before it, up to 1. */
  readonly #cumulative: Float64Array;
  /** Ids of a text after a given head, by both; bounded by the draws times the texts of a prompt. */
  readonly #ids = new Map<string, readonly number[]>();

  /** @param newId returns an id that no other segment has */
  constructor(options: SharedTextOptions, segmentTokens: number, seed: number, newId: () => number) {
    assert(options.perPrompt <= options.count, 'a prompt begins with different texts');
    this.#options = options;
    this.#random = seededRandom(seed ^ DRAWS);
    this.#newId = newId;
    this.#segments = drawLengths(options, seededRandom(seed ^ LENGTHS)).map((tokens) =>
      Math.max(1, Math.round(tokens / segmentTokens)),
    );
    this.#cumulative = cumulate(options);
  }

  /** Returns the ids of the beginning of a new prompt. */
  draw(): readonly number[] {
    const ids: number[] = [];
    const drawn = new Set<number>();
    let head = '';
    for (let at = 0; at < this.#options.perPrompt; at++) {
      let text = this.#pick();
      while (drawn.has(text)) text = (text + 1) % this.#options.count;
      drawn.add(text);
      head = `${head} ${text}`;
      ids.push(...this.#idsOf(head, this.#segments[text]!));
    }
    return ids;
  }

  #pick(): number {
    const chance = this.#random.next();
    let low = 0;
    let high = this.#cumulative.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#cumulative[middle]! > chance) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #idsOf(head: string, segments: number): readonly number[] {
    const known = this.#ids.get(head);
    if (known !== undefined) return known;
    const ids = Array.from({ length: segments }, () => this.#newId());
    this.#ids.set(head, ids);
    return ids;
  }
}

/**
 * Returns a length for each text. The lengths of a workload are the same with every seed; the seed only says which text
 * has which, so that seeds differ in the draw and not in the amount of work.
 */
function drawLengths({ count, tokensMin, tokensMax }: SharedTextOptions, random: Random): readonly number[] {
  const lengths = Array.from({ length: count }, (_, at) => tokensMin * (tokensMax / tokensMin) ** ((at + 0.5) / count));
  for (let at = count - 1; at > 0; at--) {
    const other = random.below(at + 1);
    [lengths[at], lengths[other]] = [lengths[other]!, lengths[at]!];
  }
  return lengths;
}

function cumulate({ count, skew }: SharedTextOptions): Float64Array {
  const cumulative = new Float64Array(count);
  let sum = 0;
  for (let at = 0; at < count; at++) {
    sum += 1 / (at + 1) ** skew;
    cumulative[at] = sum;
  }
  return cumulative.map((part) => part / sum);
}
