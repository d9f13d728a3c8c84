import { BYTES_PER_TOKEN } from '../../protocol/index.ts';
import type { Tokenizer } from '../../tokens/index.ts';

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
