/**
 * Decides the next token of a sequence from the seed and all tokens before it, and from nothing else: feeding
 * a cursor the prompt and the tokens so far gives the same continuation anywhere, at every cut.
 */
export interface TokenCursor {
  /** Takes in the sequence's next token, prompt or generated. */
  push(token: number): void;
  /** The token that follows; `NATURAL_END` where the text has come to its end and `mayEnd`. */
  next(mayEnd: boolean): number;
}

/** No token: the answer is complete. */
export const NATURAL_END = -1;

/** Range of the ids of random output. */
export interface IdRange {
  readonly first: number;
  readonly count: number;
}

/** A running hash of the tokens seen so far, 32 bits. */
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
    return first + drawn; // the whole range is to be avoided
  }
}

/** Tokens of a built-in text: answers begin with a passage; text that must go on after its end goes on with another one. */
export interface PassageTokens {
  readonly openings: readonly ArrayLike<number>[];
  /** The same passages, each after a separator. */
  readonly continuations: readonly ArrayLike<number>[];
  /** What is answered to one question; undefined = it is answered like any other. */
  readonly introduction: Introduction | undefined;
}

/** A question, by the tokens that it ends with, and the passage that answers it. */
export interface Introduction {
  readonly cue: ArrayLike<number>;
  readonly passage: ArrayLike<number>;
}

/** Longest way from a question's end to its answer: what a chat template writes between them. */
const CUE_REACH_TOKENS = 32;

/**
 * Readable text. A passage begins at any token that equals the first one of the passage chosen by the hash of all tokens
 * before it, so a cursor that reads a prompt with half an answer at its end finds itself in the middle of that answer. Shortly
 * behind the cue of the introduction that one is chosen, whatever the hash.
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
  #passage: ArrayLike<number>; // the one that the next token belongs to
  #at = 0;
  #isEnded = false;
  /** Tokens of the cue that have just been read, in order. */
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
    if (this.#text.introduction !== undefined) this.#listen(this.#text.introduction.cue, token);
    this.#at = follows ? this.#at + 1 : 0;
    this.#isEnded = this.#at === this.#passage.length;
    if (follows && !this.#isEnded) return;
    this.#at = 0;
    this.#passage = this.#isEnded ? this.#chosen(this.#text.continuations) : this.#opening();
  }

  #listen(cue: ArrayLike<number>, token: number): void {
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

/** Prepares encoded passages. Empty ones are left out; undefined when nothing is left. */
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

/** Thoughts before an answer. */
export interface Thinking {
  /** Ids that surround a thought. */
  readonly startId: number;
  readonly endId: number;
  /** Share of the longest answer that is thought, 0 to 1. */
  readonly ratio: number;
}

/** Tokens of the thought at the head of an answer of `outputTokens`, both ids that surround it included; 0 = none. */
export function thinkingTokens(outputTokens: number, ratio: number): number {
  const tokens = Math.floor(outputTokens * ratio);
  return outputTokens < 2 || tokens === 0 ? 0 : Math.min(Math.max(tokens, 2), outputTokens);
}

/**
 * Puts a thought before what another cursor writes: `[start, tokens..., end]`. An answer that moves here half written has its
 * beginning in the prompt and fewer tokens left: an open thought in the prompt goes on, and one that is as long
 * as a thought of this answer would be is taken for its own.
 */
export class ThinkingCursor implements TokenCursor {
  readonly #inner: TokenCursor;
  readonly #thinking: Thinking;
  /** Tokens of the open thought; 0 = none is open. */
  #open = 0;
  /** Tokens of the last whole thought, and those behind it. */
  #whole = 0;
  #behind = 0;
  /** Tokens of the thought that are still to be written. */
  #left = 0;

  constructor(inner: TokenCursor, thinking: Thinking) {
    this.#inner = inner;
    this.#thinking = thinking;
  }

  /** The prompt has been pushed; up to `tokensMax` tokens follow. */
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
