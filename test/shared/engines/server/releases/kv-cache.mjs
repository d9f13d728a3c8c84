// The prefix cache of one rank: whole blocks by the hash of all that is before them, and what it tells of them.
import { createHash } from 'node:crypto';

export class KvCache {
  #blocks = new Set();
  #held = 0;

  /** @param isSigned hashes are signed numbers of 64 bits */
  constructor(publisher, blockSize, { isSigned }) {
    this.publisher = publisher;
    this.blockSize = blockSize;
    this.isSigned = isSigned;
  }

  /**
   * Takes a prompt in, and returns how many of its tokens were there. Its hashes also cover `keys`, and its events name
   * `told`.
   */
  take(tokens, keys, told) {
    let parent;
    let cached = 0;
    const fresh = [];
    for (let at = 0; at + this.blockSize <= tokens.length; at += this.blockSize) {
      const ids = tokens.slice(at, at + this.blockSize);
      const hash = this.#hash([String(parent), ids, keys]);
      if (this.#blocks.has(hash)) cached += this.blockSize;
      else fresh.push({ hash, parent, ids, isFirst: at === 0 });
      this.#blocks.add(hash);
      parent = hash;
    }
    if (fresh.length > 0) this.publisher?.publish([this.#stored(fresh, told)]);
    // The last block of a prompt is computed again: its output is wanted.
    return Math.min(cached, Math.floor((tokens.length - 1) / this.blockSize) * this.blockSize);
  }

  hold(change) {
    this.#held += change;
  }

  get isHeld() {
    return this.#held > 0;
  }

  /** Holds two blocks from the start, of which no subscriber has heard. */
  holdEarly() {
    const ids = Array(this.blockSize).fill(9);
    const first = { hash: this.#hash([ids]), ids, isFirst: true };
    const second = { hash: this.#hash([ids, ids]), parent: first.hash, ids };
    this.publisher?.keep([this.#stored([first, second], {})]);
  }

  clear() {
    this.#blocks.clear();
    this.publisher?.publish([{ type: 'AllBlocksCleared' }]);
  }

  #stored(blocks, { extraKeys, ...told }) {
    return {
      type: 'BlockStored',
      block_hashes: blocks.map(({ hash }) => hash),
      parent_block_hash: blocks[0].parent ?? null,
      token_ids: blocks.flatMap(({ ids }) => ids),
      block_size: this.blockSize,
      lora_id: null,
      medium: 'GPU',
      ...told,
      ...(extraKeys === undefined ? {} : { extra_keys: blocks.map(({ isFirst }) => extraKeys(isFirst)) }),
    };
  }

  #hash(parts) {
    const bytes = createHash('sha256').update(JSON.stringify(parts)).digest();
    return this.isSigned ? bytes.readBigInt64BE() : bytes.readBigUInt64BE();
  }
}
