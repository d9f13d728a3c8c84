import type { BlockHasher } from '../../tokens/index.ts';
import type { BlockNames } from './sequence.ts';

/** What names the blocks of a sequence apart from those of others with the same tokens. */
export interface NameScope {
  readonly loraName?: string | undefined;
  readonly cacheSalt?: string | undefined;
}

/** The tokens of one sequence with the names of their full blocks, made when asked for. */
export class TokenNames implements BlockNames {
  tokens: Uint32Array;
  length: number;
  hashes: Uint32Array;
  tokensHashes: Uint32Array;
  readonly scope: NameScope;
  #named = 0;
  readonly #blockSizeTokens: number;
  readonly #hasher: BlockHasher;

  /** @param scope what `hasher` hashes besides the tokens */
  constructor(
    prompt: Uint32Array,
    spareTokens: number,
    blockSizeTokens: number,
    hasher: BlockHasher,
    scope: NameScope = {},
  ) {
    this.scope = scope;
    this.tokens = new Uint32Array(prompt.length + spareTokens);
    this.tokens.set(prompt);
    this.length = prompt.length;
    this.#blockSizeTokens = blockSizeTokens;
    this.#hasher = hasher;
    const pairs = Math.floor(this.tokens.length / blockSizeTokens) * 2;
    this.hashes = new Uint32Array(pairs);
    this.tokensHashes = new Uint32Array(pairs);
  }

  push(token: number): void {
    if (this.length === this.tokens.length) this.tokens = grown(this.tokens, this.length * 2);
    this.tokens[this.length++] = token;
  }

  ensure(count: number): void {
    if (count <= this.#named) return;
    if (count * 2 > this.hashes.length) {
      const words = 2 * Math.ceil(this.tokens.length / this.#blockSizeTokens);
      this.hashes = grown(this.hashes, words);
      this.tokensHashes = grown(this.tokensHashes, words);
    }
    this.#hasher.name(this.tokens, this.#named, count, this.tokensHashes, this.hashes);
    this.#named = count;
  }
}

function grown(words: Uint32Array, length: number): Uint32Array {
  const larger = new Uint32Array(length);
  larger.set(words);
  return larger;
}
