import { type ChainDesk, chainDesk } from '../../tokens/index.ts';
import { ROOT } from './block-records.ts';
import type { Holdings } from './holdings.ts';

/** The blocks of one event: their sequence hashes, and where they stand in the index. Reused from event to event. */
export class Path {
  /** Pairs of halves. */
  sequence = new Int32Array(512);
  /** Numbers of the blocks; 0 from the first one that is not in the index. */
  blocks = new Int32Array(256);
  /** Blocks that are in the index. */
  known = 0;
  readonly #desk: ChainDesk = chainDesk();

  /** Names the blocks that follow `parent`. */
  chain(holdings: Holdings, parent: number, tokensHashes: Uint32Array): void {
    const { local, sequence, blocksMax } = this.#desk;
    const count = tokensHashes.length >> 1;
    if (count > this.blocks.length) {
      this.blocks = new Int32Array(2 * count);
      this.sequence = new Int32Array(4 * count);
    }
    const out = this.sequence;
    let at = 0;
    if (parent === ROOT) {
      out[0] = tokensHashes[0] as number;
      out[1] = tokensHashes[1] as number;
      at = 1;
    }
    let low = parent === ROOT ? (out[0] as number) : holdings.blocks.low(parent);
    let high = parent === ROOT ? (out[1] as number) : holdings.blocks.high(parent);
    while (at < count) {
      const from = 2 * at;
      const words = 2 * Math.min(blocksMax, count - at);
      for (let word = 0; word < words; word++) local[word] = tokensHashes[from + word] as number;
      this.#desk.chain(words >> 1, low, high);
      for (let word = 0; word < words; word++) out[from + word] = sequence[word] as number;
      at += words >> 1;
      low = out[2 * at - 2] as number;
      high = out[2 * at - 1] as number;
    }
  }

  /** Looks the first `count` blocks up. */
  locate(holdings: Holdings, count: number): void {
    const { sequence, blocks } = this;
    let at = 0;
    for (; at < count; at++) {
      const block = holdings.table.findBlock(sequence[2 * at] as number, sequence[2 * at + 1] as number);
      if (block === 0) break;
      blocks[at] = block;
    }
    this.known = at;
    blocks.fill(0, at, count);
  }

  /** Whether `block` stands before position `at` of a path that follows `parent`. */
  leadsThrough(holdings: Holdings, block: number, parent: number, at: number): boolean {
    const before = this.blocks.indexOf(block);
    if (before >= 0 && before < at) return true;
    for (let above = parent; above !== ROOT; above = holdings.blocks.parentOf(above)) if (above === block) return true;
    return false;
  }
}
