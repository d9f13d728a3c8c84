import { BYTES_PER_TOKEN } from '../../protocol/generation/index.ts';
import type { Tokenizer } from '../../tokens/index.ts';

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
