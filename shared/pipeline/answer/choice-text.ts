import type { Detokenizer } from '../../tokens/index.ts';
import { StopStrings } from './stop-strings.ts';

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

  /** Whether an end token, a stop string or a token beyond the limit has come. Text after it does not count. */
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
      this.#counted = 0; // a final record has no tokens
      return '';
    }
    const end = start + Math.min(count, this.room);
    let text = '';
    for (let at = start; at < end; at++) {
      if (this.#endToken !== undefined || this.matchedStop !== undefined) break;
      text += this.#pushOne(ids[at] as number); // the caller's range contains `at`
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
