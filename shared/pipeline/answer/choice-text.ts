import { BYTES_PER_TOKEN } from '../../protocol/index.ts';
import type { Detokenizer, Tokenizer } from '../../tokens/index.ts';

/**
 * Ends text at the first stop string, across any chunking, and never shows a part of a hidden one.
 *
 *     hidden:   text so far  ──emitted──┤├── held: longest suffix that may still become a stop string
 *     visible:  text so far  ──emitted (all of it)──┤
 *
 * An Aho-Corasick automaton over UTF-16 units. Each unit costs a bounded number of steps on average, whatever the stop
 * strings and the text. The number of units to hold is the depth of the automaton's node: the length of the longest
 * suffix that begins a stop string.
 */
export class StopStrings {
  readonly #automaton: Automaton;
  readonly #isVisible: boolean;
  #node = ROOT;
  #held = '';
  #matched: string | undefined;

  /** @param isVisible whether the stop string is part of the output (`include_stop_str_in_output`) */
  constructor(stops: readonly string[], isVisible: boolean) {
    this.#automaton = new Automaton(stops);
    this.#isVisible = isVisible;
  }

  /** The stop string that ended the text; undefined if none has. */
  get matched(): string | undefined {
    return this.#matched;
  }

  /** Takes the next piece of text, and returns the text that may be shown. Returns nothing more after a match. */
  push(text: string): string {
    if (this.#matched !== undefined || text === '') return '';
    const depthBefore = this.#automaton.depthOf(this.#node);
    const match = this.#scan(text);
    if (match !== undefined) {
      this.#matched = match.stop;
      return this.#isVisible ? text.slice(0, match.end) : this.#upTo(text, match.end - match.stop.length, depthBefore);
    }
    if (this.#isVisible) return text;
    const shownTo = text.length - this.#automaton.depthOf(this.#node);
    const shown = this.#upTo(text, shownTo, depthBefore);
    this.#held = shownTo >= 0 ? text.slice(shownTo) : this.#held.slice(depthBefore + shownTo) + text;
    return shown;
  }

  /** Returns the text that was held, because the text has ended for another reason. */
  flush(): string {
    const held = this.#matched === undefined ? this.#held : '';
    this.#held = '';
    return held;
  }

  /** Returns the held text and `text` up to `end`, an index in `text`. A negative `end` lies in the held text. */
  #upTo(text: string, end: number, heldLength: number): string {
    return end >= 0 ? this.#held + text.slice(0, end) : this.#held.slice(0, heldLength + end);
  }

  /**
   * Returns the match in this piece that starts first; of equal ones, the first in the list of stop strings. After a
   * match the scan continues while the node's suffix starts no later, because a longer stop string may start earlier.
   */
  #scan(text: string): Match | undefined {
    let best: Match | undefined;
    let bestStart = 0;
    for (let at = 0; at < text.length; at++) {
      this.#node = this.#automaton.step(this.#node, text.charCodeAt(at));
      const end = at + 1;
      if (best !== undefined && end - this.#automaton.depthOf(this.#node) > bestStart) break;
      const rank = this.#automaton.endsHere(this.#node);
      if (rank === NONE) continue;
      const stop = this.#automaton.stops[rank] as string; // a rank is an index of the list
      const start = end - stop.length;
      if (best !== undefined && (start > bestStart || (start === bestStart && rank > best.rank))) continue;
      best = { stop, rank, end };
      bestStart = start;
    }
    return best;
  }
}

interface Match {
  readonly stop: string;
  /** Index in the list of stop strings. */
  readonly rank: number;
  /** Index in the piece of text after the match. */
  readonly end: number;
}

const ROOT = 0;
const NONE = -1;
const UNITS = 0x1_0000;

/** Trie of the stop strings with failure links. Nodes are numbers. One map holds all edges, keyed by node and unit. */
class Automaton {
  readonly stops: readonly string[];
  readonly #edges = new Map<number, number>();
  readonly #depth: number[] = [0];
  /** Node of the longest proper suffix that is also in the trie. */
  readonly #fail: number[] = [ROOT];
  /** Rank of the longest stop string that ends at a node, the first of equal ones; `NONE` if there is none. */
  readonly #ends: number[] = [NONE];

  constructor(stops: readonly string[]) {
    this.stops = stops;
    for (let rank = 0; rank < stops.length; rank++) this.#add(stops[rank] as string, rank);
    this.#link();
  }

  depthOf(node: number): number {
    return this.#depth[node] as number; // `#add` has made every node
  }

  /** Returns the rank of the longest stop string that ends at this node, or `NONE`. */
  endsHere(node: number): number {
    return this.#ends[node] as number;
  }

  step(from: number, unit: number): number {
    for (let node = from; ; node = this.#fail[node] as number) {
      const next = this.#edges.get(node * UNITS + unit);
      if (next !== undefined) return next;
      if (node === ROOT) return ROOT;
    }
  }

  #add(stop: string, rank: number): void {
    let node = ROOT;
    for (let at = 0; at < stop.length; at++) {
      const key = node * UNITS + stop.charCodeAt(at);
      let next = this.#edges.get(key);
      if (next === undefined) {
        next = this.#depth.length;
        this.#edges.set(key, next);
        this.#depth.push(at + 1);
        this.#fail.push(ROOT);
        this.#ends.push(NONE);
      }
      node = next;
    }
    if (node !== ROOT && this.#ends[node] === NONE) this.#ends[node] = rank;
  }

  /** Sets the failure links in order of depth, because a link leads to a node of lesser depth. */
  #link(): void {
    const edges = [...this.#edges].sort(([, a], [, b]) => this.depthOf(a) - this.depthOf(b));
    for (const [key, node] of edges) {
      const parent = Math.floor(key / UNITS);
      const fail = parent === ROOT ? ROOT : this.step(this.#fail[parent] as number, key % UNITS);
      this.#fail[node] = fail;
      if (this.#ends[node] === NONE) this.#ends[node] = this.#ends[fail] as number;
    }
  }
}

/** Rules for the end of a choice's text, and for the part that is shown. All choices of a request share them. */
export interface ChoiceRules {
  readonly minTokens: number;
  /** Largest number of tokens of a choice, even if the engine makes more; infinite if no limit is known. */
  readonly maxTokens: number;
  readonly stopStrings: readonly string[];
  readonly showsStopString: boolean;
  /** The model's own end tokens. They end the text, are not shown, and are not reported as `stop_reason`. */
  readonly hiddenIds: ReadonlySet<number>;
  /** End tokens that the client named. They are not shown, and are reported as `stop_reason`. */
  readonly stopIds: ReadonlySet<number>;
  /** End tokens whose text is shown. */
  readonly visibleIds: ReadonlySet<number>;
}

/**
 * Text of one choice, token by token. It ends at an end token, at a stop string, or at the first token beyond the
 * limit, even if the engine does not say so. Later tokens are ignored.
 */
export class ChoiceText {
  readonly #rules: ChoiceRules;
  readonly #detokenizer: Detokenizer;
  readonly #stops: StopStrings | undefined;
  readonly #watchesIds: boolean;
  #generated = 0;
  #endToken: number | undefined;
  #counted = 0;
  #isOverrun = false;
  isFinished = false;

  constructor(rules: ChoiceRules, detokenizer: Detokenizer) {
    this.#rules = rules;
    this.#detokenizer = detokenizer;
    this.#stops =
      rules.stopStrings.length === 0 ? undefined : new StopStrings(rules.stopStrings, rules.showsStopString);
    this.#watchesIds = rules.hiddenIds.size + rules.stopIds.size + rules.visibleIds.size > 0;
  }

  /** Tokens counted so far. */
  get generated(): number {
    return this.#generated;
  }

  /** Tokens that the last `push` counted, without those after the end. */
  get counted(): number {
    return this.#counted;
  }

  /** Whether an end token, a stop string or a token beyond the limit has come. Nothing after it is part of the text. */
  get hasEnded(): boolean {
    return this.#isOverrun || this.#endToken !== undefined || this.matchedStop !== undefined;
  }

  /** Whether the engine went beyond the last token of the request. */
  get isOverrun(): boolean {
    return this.#isOverrun;
  }

  /** The stop string that was matched; undefined if none was. */
  get matchedStop(): string | undefined {
    return this.#stops?.matched;
  }

  /** The client's stop string or token id that ended the text; undefined if the model's own end token did. */
  get stopReason(): string | number | undefined {
    if (this.#stops?.matched !== undefined) return this.#stops.matched;
    return this.#endToken !== undefined && !this.#rules.hiddenIds.has(this.#endToken) ? this.#endToken : undefined;
  }

  /** Takes `ids[start .. start + count)` and returns the text that may be shown now. */
  push(ids: ArrayLike<number>, start: number, count: number): string {
    const before = this.#generated;
    if (count === 0) {
      this.#counted = 0; // a closing record has no tokens
      return '';
    }
    const end = start + Math.min(count, this.room);
    let text = '';
    for (let at = start; at < end; at++) {
      if (this.#endToken !== undefined || this.matchedStop !== undefined) break;
      text += this.#pushOne(ids[at] as number); // `at` is inside the caller's range
    }
    this.#counted = this.#generated - before;
    this.#isOverrun = end < start + count && !this.hasEnded;
    return text;
  }

  /** Number of tokens that may still come; 0 if an estimate has already counted more than the limit. */
  get room(): number {
    return Math.max(0, this.#rules.maxTokens - this.#generated);
  }

  /** Takes text that the engine detokenized itself. @param isCut whether the caller has cut it at the limit */
  pushText(text: string, tokenCount: number, isCut = false): string {
    this.#generated += tokenCount;
    this.#counted = tokenCount;
    const shown = this.#stops === undefined ? text : this.#stops.push(text);
    this.#isOverrun = isCut && this.matchedStop === undefined;
    return shown;
  }

  /** Returns all text that is still held back, after the last token. */
  flush(): string {
    const tail = this.#detokenizer.flush();
    if (this.#stops === undefined) return tail;
    return this.#stops.push(tail) + this.#stops.flush();
  }

  #pushOne(id: number): string {
    this.#generated++;
    if (this.#generated < this.#rules.minTokens) return this.#detokenizer.push(id);
    if (this.#watchesIds && this.#ends(id)) {
      this.#endToken = id;
      if (!this.#rules.visibleIds.has(id)) return '';
    }
    const text = this.#detokenizer.push(id);
    return this.#stops === undefined ? text : this.#stops.push(text);
  }

  #ends(id: number): boolean {
    return this.#rules.hiddenIds.has(id) || this.#rules.stopIds.has(id) || this.#rules.visibleIds.has(id);
  }
}

/** Longest piece that is encoded to count its tokens. Encoding a longer one would delay other streams. */
const ENCODED_CHARS_MAX = 16_384;

/**
 * Counts the tokens of text that a worker sends without their ids. The model's tokenizer encodes each piece by itself.
 * If it does not encode in this thread, a token is estimated for every three bytes of all pieces so far.
 */
export class TextTokens {
  readonly #tokenizer: Tokenizer | undefined;
  #estimatedBytes = 0;

  constructor(tokenizer: Tokenizer | undefined) {
    this.#tokenizer = tokenizer?.encodesInThreads === true ? undefined : tokenizer;
  }

  /** Returns the number of tokens that `piece` adds. */
  of(piece: string): number {
    if (piece === '') return 0;
    if (this.#tokenizer !== undefined && piece.length <= ENCODED_CHARS_MAX) return this.#tokenizer.encode(piece).length;
    const before = Math.ceil(this.#estimatedBytes / BYTES_PER_TOKEN);
    this.#estimatedBytes += Buffer.byteLength(piece);
    return Math.ceil(this.#estimatedBytes / BYTES_PER_TOKEN) - before;
  }
}
