/** Tokens of a Unigram model. */
export interface UnigramVocabulary {
  /** Tokens and their scores, by id. */
  readonly entries: readonly (readonly [token: string, score: number])[];
  /** Id of the token that stands for text that no token covers. */
  readonly unknownId: number | undefined;
}

/** Amount by which the score of an unknown character is below that of the least likely token. */
const UNKNOWN_PENALTY = 10;
/** Marks a place where no token ends. */
const NOWHERE = -1;

/** Methods of strings that Node 20 has and the ES2023 types lack. */
interface WellFormedText {
  isWellFormed(): boolean;
}

/**
 * Finds the most likely tokens of a word, in time proportional to its length. The tokens lie sorted in one array, so
 * those that begin alike are neighbours. That costs a few bytes for each token, whatever the tokens are.
 *
 *     starts[rank] ──> units      UTF-16 units of the token, in sorted order
 *     ids[rank], scores[rank]
 */
export class UnigramModel {
  readonly #units: Uint16Array;
  readonly #starts: Uint32Array;
  readonly #ids: Int32Array;
  readonly #scores: Float64Array;
  readonly #unknownScore: number;
  readonly #unknownId: number;

  constructor({ entries, unknownId }: UnigramVocabulary) {
    let least = Number.POSITIVE_INFINITY;
    for (const [, score] of entries) if (score < least) least = score;
    this.#unknownScore = least - UNKNOWN_PENALTY;
    this.#unknownId = unknownId ?? NOWHERE;
    const ids = new Map(entries.map(([token], id) => [token, id])); // of two equal tokens the last one counts
    // No text holds a lone surrogate.
    const tokens = [...ids.keys()].filter((token) => (token as unknown as WellFormedText).isWellFormed()).sort(byUnits);
    this.#starts = new Uint32Array(tokens.length + 1);
    this.#ids = new Int32Array(tokens.length);
    this.#scores = new Float64Array(tokens.length);
    this.#units = new Uint16Array(tokens.reduce((sum, token) => sum + token.length, 0));
    let end = 0;
    for (const [rank, token] of tokens.entries()) {
      for (let at = 0; at < token.length; at++) this.#units[end++] = token.charCodeAt(at);
      this.#starts[rank + 1] = end;
      const id = ids.get(token)!;
      this.#ids[rank] = id;
      this.#scores[rank] = id === this.#unknownId ? this.#unknownScore : entries[id]![1];
    }
  }

  /** Returns the ids of a word, -1 for an unknown character. Adjacent unknown characters share one -1. */
  encode(word: string): number[] {
    const { ids, from } = this.#bestEnds(word);
    const path: number[] = [];
    for (let end = word.length; end > 0; end = from[end]!) {
      const id = ids[end]!;
      const isUnknown = id === NOWHERE || id === this.#unknownId;
      if (!isUnknown || path.at(-1) !== NOWHERE) path.push(isUnknown ? NOWHERE : id);
    }
    return path.reverse();
  }

  /** Returns, for each place in the word, the last token of the best path to it and where that token begins. */
  #bestEnds(word: string) {
    const ids = new Int32Array(word.length + 1);
    const from = new Int32Array(word.length + 1).fill(NOWHERE);
    const scores = new Float64Array(word.length + 1);
    const reach = (start: number, end: number, score: number, id: number): void => {
      const sum = scores[start]! + score;
      if (from[end] !== NOWHERE && sum <= scores[end]!) return;
      from[end] = start;
      scores[end] = sum;
      ids[end] = id;
    };
    for (let start = 0, next = 0; start < word.length; start = next) {
      next = start + (word.codePointAt(start)! > 0xffff ? 2 : 1);
      const hasCharacter = this.#eachPrefix(word, start, next, reach);
      if (!hasCharacter) reach(start, next, this.#unknownScore, NOWHERE);
    }
    return { ids, from };
  }

  /**
   * Visits the tokens that `word` has at `start`, shortest first. Returns whether one of them is the character that
   * ends at `next`.
   */
  #eachPrefix(
    word: string,
    start: number,
    next: number,
    visit: (start: number, end: number, score: number, id: number) => void,
  ): boolean {
    let low = 0;
    let high = this.#ids.length;
    let hasCharacter = false;
    for (let end = start; end < word.length && low < high; ) {
      const depth = end - start;
      const unit = word.charCodeAt(end++);
      low = this.#firstFrom(low, high, depth, unit);
      high = this.#firstFrom(low, high, depth, unit + 1);
      // Among tokens that begin alike, the shortest comes first.
      if (low === high || this.#starts[low + 1]! - this.#starts[low]! !== depth + 1) continue;
      visit(start, end, this.#scores[low]!, this.#ids[low]!);
      hasCharacter ||= end === next;
    }
    return hasCharacter;
  }

  /**
   * Returns the first of the tokens `[low, high)` whose unit at `depth` is `unit` or above. A token that ends before
   * `depth` counts as below.
   */
  #firstFrom(low: number, high: number, depth: number, unit: number): number {
    let from = low;
    let to = high;
    while (from < to) {
      const middle = (from + to) >>> 1;
      const at = this.#starts[middle]! + depth;
      if (at < this.#starts[middle + 1]! && this.#units[at]! >= unit) to = middle;
      else from = middle + 1;
    }
    return from;
  }
}

/** Compares by UTF-16 units, as `<` does on texts. */
function byUnits(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
