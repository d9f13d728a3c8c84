/**
 * Determines the next token of a sequence only from the seed and all tokens before it. So a cursor that has read the
 * prompt and the tokens so far continues in the same way on any worker.
 */
export interface TokenCursor {
  /** Takes the sequence's next token, from the prompt or generated. */
  push(token: number): void;
  /** Returns the token that follows; `NATURAL_END` if the text has ended and `mayEnd`. */
  next(mayEnd: boolean): number;
}

/** Not a token: the answer is complete. */
export const NATURAL_END = -1;

/** Range of the ids of random output. */
export interface IdRange {
  readonly first: number;
  readonly count: number;
}

/** Updates a running hash of the tokens seen so far, 32 bits. */
function mix(state: number, token: number): number {
  const mixed = Math.imul(state ^ token, 0x9e37_79b1);
  return (mixed ^ (mixed >>> 15)) | 0;
}

/** Spreads the bits of a running hash, so that every choice drawn from it looks random. */
function spread(state: number): number {
  let mixed = Math.imul(state ^ (state >>> 16), 0x21f0_aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a_2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

/** Random-looking ids without end. */
export class RandomCursor implements TokenCursor {
  #state: number;
  readonly #range: IdRange;
  readonly #avoided: readonly number[];

  /** `avoided` ids (end of sequence and the like) are never drawn. */
  constructor(seed: number, range: IdRange, avoided: readonly number[]) {
    this.#state = seed | 0;
    this.#range = range;
    this.#avoided = avoided;
  }

  push(token: number): void {
    this.#state = mix(this.#state, token);
  }

  next(): number {
    const { first, count } = this.#range;
    const drawn = spread(this.#state) % count;
    for (let step = 0; step <= this.#avoided.length; step++) {
      const id = first + ((drawn + step) % count);
      if (!this.#avoided.includes(id)) return id;
    }
    return first + drawn; // every id of the range is avoided
  }
}

/**
 * Tokens of a built-in text. An answer begins with a passage; if it must go on after the end, another passage follows.
 */
export interface PassageTokens {
  readonly openings: readonly ArrayLike<number>[];
  /** The same passages, each after a separator. */
  readonly continuations: readonly ArrayLike<number>[];
  /** Question with an answer of its own; undefined = none. */
  readonly introduction: Introduction | undefined;
}

/** Question, recognised by its last tokens, and the passage that answers it. */
export interface Introduction {
  readonly cue: ArrayLike<number>;
  readonly passage: ArrayLike<number>;
}

/** Longest distance from a question's end to its answer: the tokens that a chat template writes between them. */
const CUE_REACH_TOKENS = 32;

/**
 * Readable text. The hash of all tokens before a token chooses a passage; the passage begins there if the token equals
 * its first token. So a cursor that reads a prompt with half an answer at its end is in the middle of that answer.
 * Shortly after the cue of the introduction, the introduction is chosen whatever the hash.
 *
 * | State | token read | goes to |
 * |---|---|---|
 * | outside | first token of the chosen opening | inside (outside for any other token) |
 * | inside | the passage's next token, not its last | inside |
 * | inside | the passage's last token | ended |
 * | inside | any other token | outside |
 * | ended | first token of the chosen continuation | inside (outside for any other token) |
 */
export class ReadableCursor implements TokenCursor {
  #state: number;
  readonly #text: PassageTokens;
  #passage: ArrayLike<number>; // passage that the next token belongs to
  #at = 0;
  #isEnded = false;
  /** Number of tokens of the cue that have just been read, in order. */
  #cued = 0;
  #sinceCue = Number.POSITIVE_INFINITY;

  constructor(seed: number, text: PassageTokens) {
    this.#state = seed | 0;
    this.#text = text;
    this.#passage = this.#chosen(text.openings);
  }

  push(token: number): void {
    const follows = this.#passage[this.#at] === token;
    this.#state = mix(this.#state, token);
    if (this.#text.introduction !== undefined) this.#matchCue(this.#text.introduction.cue, token);
    this.#at = follows ? this.#at + 1 : 0;
    this.#isEnded = this.#at === this.#passage.length;
    if (follows && !this.#isEnded) return;
    this.#at = 0;
    this.#passage = this.#isEnded ? this.#chosen(this.#text.continuations) : this.#opening();
  }

  #matchCue(cue: ArrayLike<number>, token: number): void {
    this.#sinceCue++;
    this.#cued = cue[this.#cued] === token ? this.#cued + 1 : cue[0] === token ? 1 : 0;
    if (this.#cued < cue.length) return;
    this.#cued = 0;
    this.#sinceCue = 0;
  }

  #opening(): ArrayLike<number> {
    const { introduction, openings } = this.#text;
    const isAsked = introduction !== undefined && this.#sinceCue <= CUE_REACH_TOKENS;
    return isAsked ? introduction.passage : this.#chosen(openings);
  }

  next(mayEnd: boolean): number {
    return mayEnd && this.#isEnded ? NATURAL_END : this.#passage[this.#at]!;
  }

  #chosen(passages: readonly ArrayLike<number>[]): ArrayLike<number> {
    return passages[spread(this.#state) % passages.length]!;
  }
}

/** Prepares encoded passages. Leaves out empty ones; returns undefined when none remain. */
export function passageTokens(
  passages: readonly ArrayLike<number>[],
  separator: ArrayLike<number>,
  introduction?: Introduction,
): PassageTokens | undefined {
  const openings = passages.filter((passage) => passage.length > 0).map((passage) => Uint32Array.from(passage));
  if (openings.length === 0) return undefined;
  const gap = Array.from(separator);
  const continuations = openings.map((opening) => Uint32Array.from([...gap, ...opening]));
  const isWhole = introduction !== undefined && introduction.cue.length > 0 && introduction.passage.length > 0;
  return { openings, continuations, introduction: isWhole ? introduction : undefined };
}

/** Reasoning before an answer. */
export interface Thinking {
  /** Ids around the reasoning. */
  readonly startId: number;
  readonly endId: number;
  /** Share of the longest answer that is reasoning, 0 to 1. */
  readonly ratio: number;
}

/**
 * Returns the number of reasoning tokens at the beginning of an answer of `outputTokens`, both ids around it included;
 * 0 = none.
 */
export function thinkingTokens(outputTokens: number, ratio: number): number {
  const tokens = Math.floor(outputTokens * ratio);
  return outputTokens < 2 || tokens === 0 ? 0 : Math.min(Math.max(tokens, 2), outputTokens);
}

/**
 * Writes reasoning before the output of another cursor: `[start, tokens..., end]`. A half-written answer that moves
 * here has its beginning in the prompt and fewer tokens left. Open reasoning in the prompt continues; finished
 * reasoning counts as this answer's own if it has the length that this answer's would have.
 */
export class ThinkingCursor implements TokenCursor {
  readonly #inner: TokenCursor;
  readonly #thinking: Thinking;
  /** Number of tokens of the open reasoning; 0 = none is open. */
  #open = 0;
  /** Number of tokens of the last finished reasoning, and of those after it. */
  #whole = 0;
  #behind = 0;
  /** Number of reasoning tokens that are still to be written. */
  #left = 0;

  constructor(inner: TokenCursor, thinking: Thinking) {
    this.#inner = inner;
    this.#thinking = thinking;
  }

  /** Begins the answer after the prompt was pushed; up to `tokensMax` tokens follow. */
  begin(tokensMax: number): void {
    const { ratio } = this.#thinking;
    const isOwn = this.#whole > 0 && thinkingTokens(tokensMax + this.#whole + this.#behind, ratio) === this.#whole;
    if (this.#open > 0) this.#left = Math.max(1, thinkingTokens(tokensMax + this.#open, ratio) - this.#open);
    else this.#left = isOwn ? 0 : thinkingTokens(tokensMax, ratio);
  }

  push(token: number): void {
    this.#inner.push(token);
    if (this.#left > 0) this.#left--;
    if (token === this.#thinking.startId) this.#open = 1;
    else if (this.#open === 0) this.#behind++;
    else this.#open++;
    if (token !== this.#thinking.endId || this.#open === 0) return;
    this.#whole = this.#open;
    this.#open = 0;
    this.#behind = 0;
  }

  next(mayEnd: boolean): number {
    if (this.#left === 0) return this.#inner.next(mayEnd);
    if (this.#open === 0) return this.#thinking.startId;
    return this.#left === 1 ? this.#thinking.endId : this.#inner.next(false);
  }
}
