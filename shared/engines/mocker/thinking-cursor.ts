import type { TokenCursor } from './token-cursor.ts';

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
