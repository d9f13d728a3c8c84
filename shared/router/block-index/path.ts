import { chainHashes, type HashScratch, hashScratch } from '../../tokens/index.ts';
import { ROOT } from './block-records.ts';
import type { Residency } from './residency.ts';

/** The blocks of one event: their sequence hashes, and where they stand in the index. Reused from event to event. */
export class Path {
  /** Pairs of halves. Until the next hashing in this process. */
  sequence: Int32Array;
  /** Numbers of the blocks; 0 from the first one that is not in the index. */
  blocks = new Int32Array(256);
  /** Blocks that are in the index. */
  known = 0;
  readonly #scratch: HashScratch = hashScratch();

  constructor() {
    this.sequence = this.#scratch.sequence;
  }

  /** Names the blocks that follow `parent`, of which there is at least one. */
  chain(residency: Residency, parent: number, tokensHashes: Uint32Array): void {
    const { local, blocksMax } = this.#scratch;
    const count = tokensHashes.length >> 1;
    if (count > blocksMax) {
      this.#chainLong(residency, parent, tokensHashes);
      return;
    }
    for (let word = 0; word < tokensHashes.length; word++) local[word] = tokensHashes[word] as number;
    const { sequence } = this.#scratch;
    this.sequence = sequence;
    if (parent !== ROOT) {
      this.#scratch.chain(0, count, residency.blocks.low(parent), residency.blocks.high(parent));
      return;
    }
    sequence[0] = local[0] as number;
    sequence[1] = local[1] as number;
    this.#scratch.chain(1, count, sequence[0] as number, sequence[1] as number);
  }

  /** More than the scratch takes at once. */
  #chainLong({ blocks }: Residency, parent: number, tokensHashes: Uint32Array): void {
    const start = parent === ROOT ? undefined : ([blocks.low(parent) >>> 0, blocks.high(parent) >>> 0] as const);
    this.sequence = new Int32Array(chainHashes(tokensHashes, start));
  }

  /** Looks the first `count` blocks up. */
  locate(residency: Residency, count: number): void {
    if (count > this.blocks.length) this.blocks = new Int32Array(2 * count);
    const { sequence, blocks } = this;
    let at = 0;
    for (; at < count; at++) {
      const block = residency.table.findBlock(sequence[2 * at] as number, sequence[2 * at + 1] as number);
      if (block === 0) break;
      blocks[at] = block;
    }
    // The others will be put into the table.
    if (at + 1 < count) residency.table.warm(sequence, at + 1, count);
    this.known = at;
    for (let missing = at; missing < count; missing++) blocks[missing] = 0;
  }

  /** The last block of the path that is in the index; `parent` when none is. */
  last(parent: number): number {
    return this.known === 0 ? parent : (this.blocks[this.known - 1] as number);
  }

  /** Whether `block` stands before position `at` of a path that follows `parent`. */
  leadsThrough(residency: Residency, block: number, parent: number, at: number): boolean {
    const before = this.blocks.indexOf(block);
    if (before >= 0 && before < at) return true;
    for (let above = parent; above !== ROOT; above = residency.blocks.parentOf(above)) if (above === block) return true;
    return false;
  }
}
