import { BYTES_PER_TOKEN } from '../../protocol/generation/index.ts';
import type { Detokenizer, Tokenizer } from '../../tokens/index.ts';
import { StopStrings } from './stop-strings.ts';

/** What ends the text of one choice, and what of it is shown. Built once a request, shared by its choices. */
export interface ChoiceRules {
  readonly minTokens: number;
  /** Most tokens of a choice, whatever the engine makes; infinite where nobody knows. */
  readonly maxTokens: number;
  readonly stopStrings: readonly string[];
  readonly showsStopString: boolean;
  /** Model's own end tokens: they end the text unseen and are no `stop_reason`. */
  readonly hiddenIds: ReadonlySet<number>;
  /** End tokens that the client named: unseen, and the `stop_reason`. */
  readonly stopIds: ReadonlySet<number>;
  /** End tokens whose text is shown. */
  readonly visibleIds: ReadonlySet<number>;
}

/**
 * Text of one choice, token by token. At an end token, a stop string or the first token beyond its most it has ended, whether
 * or not the engine says so; tokens after that are ignored.
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

  /** Tokens that the last `push` counted: those after the end are not. */
  get counted(): number {
    return this.#counted;
  }

  /** An end token, a stop string or a token too many was seen: nothing that follows is part of the text. */
  get hasEnded(): boolean {
    return this.#isOverrun || this.#endToken !== undefined || this.matchedStop !== undefined;
  }

  /** The engine went on behind the last token that was asked for. */
  get isOverrun(): boolean {
    return this.#isOverrun;
  }

  /** The stop string that was matched, once one was. */
  get matchedStop(): string | undefined {
    return this.#stops?.matched;
  }

  /** What ended the text, in the terms of `stop_reason`: a string or token id of the client's, nothing for the model's own. */
  get stopReason(): string | number | undefined {
    if (this.#stops?.matched !== undefined) return this.#stops.matched;
    return this.#endToken !== undefined && !this.#rules.hiddenIds.has(this.#endToken) ? this.#endToken : undefined;
  }

  /** Takes `ids[start .. start + count)` and returns the text that may be shown now. */
  push(ids: ArrayLike<number>, start: number, count: number): string {
    const before = this.#generated;
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

  /** How many tokens more may come. */
  get room(): number {
    return this.#rules.maxTokens - this.#generated;
  }

  /** Takes text that the engine detokenized itself. @param isCut it is what fits of a text that does not */
  pushText(text: string, tokenCount: number, isCut = false): string {
    this.#generated += tokenCount;
    this.#counted = tokenCount;
    const shown = this.#stops === undefined ? text : this.#stops.push(text);
    this.#isOverrun = isCut && this.matchedStop === undefined;
    return shown;
  }

  /** Everything still held back, once no more tokens come. */
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

/** Longer pieces are estimated: encoding them would hold up other streams. */
const ENCODED_CHARS_MAX = 16_384;

/**
 * Counts the tokens of text that a worker sends without their ids: by the model's tokenizer, each piece for itself; without
 * one, a token for every three bytes of all pieces so far.
 */
export class TextTokens {
  readonly #tokenizer: Tokenizer | undefined;
  #estimatedBytes = 0;

  constructor(tokenizer: Tokenizer | undefined) {
    this.#tokenizer = tokenizer;
  }

  /** Tokens that `piece` adds. */
  of(piece: string): number {
    if (piece === '') return 0;
    if (this.#tokenizer !== undefined && piece.length <= ENCODED_CHARS_MAX) return this.#tokenizer.encode(piece).length;
    const before = Math.ceil(this.#estimatedBytes / BYTES_PER_TOKEN);
    this.#estimatedBytes += Buffer.byteLength(piece);
    return Math.ceil(this.#estimatedBytes / BYTES_PER_TOKEN) - before;
  }
}
