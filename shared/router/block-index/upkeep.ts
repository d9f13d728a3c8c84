import { ROOT } from './block-records.ts';
import { RECENT } from './holder-sets.ts';
import type { Holdings } from './holdings.ts';

/** Blocks of one chain that give way together. */
const EVICTED_TOGETHER = 16;
/** So many holders of a block, as a power of two, take as long as a block. */
const HOLDERS_SHIFT = 5;
/** Blocks looked at before one that was stored again of late gives way all the same. */
const LOOKED_AT_MAX = 4096;

/**
 * Two hands that go round the blocks. One takes ended tenures off them, from the youngest block on, so that most are free
 * of children when it comes by. The other frees what was stored longest ago when the index is full: chains from their
 * ends up; a chain that was stored again since the hand's last visit is spared once.
 */
export class Upkeep {
  readonly #holdings: Holdings;
  #sweepAt = 0;
  /** A block that the sweep left bare and has yet to free. */
  #bare = ROOT;
  /** Tenures that this round of the sweep frees. */
  #sweepTenures = 0;
  #evictAt = 0;
  /** What the last chain that gave way ends with now. */
  #evictNext = ROOT;

  constructor(holdings: Holdings) {
    this.#holdings = holdings;
  }

  get isIdle(): boolean {
    return this.#sweepTenures === 0 && this.#holdings.tenures.endedCount === 0;
  }

  /** Looks at up to `blocksMax` blocks. @returns whether there is more to do */
  sweep(blocksMax: number): boolean {
    const { blocks, tenures } = this.#holdings;
    if (this.#sweepTenures === 0) {
      if (tenures.endedCount === 0) return false;
      this.#sweepTenures = tenures.endedCount;
      this.#sweepAt = blocks.top - 1;
    }
    for (let left = blocksMax; left > 0; left--) {
      if (this.#bare !== ROOT) this.#bare = this.#holdings.giveBackOne(this.#bare);
      else if (this.#sweepAt > 0) {
        this.#bare = this.#sweepAt;
        if (!blocks.isFree(this.#sweepAt)) left -= this.#holdings.sweep(this.#sweepAt) >>> HOLDERS_SHIFT;
        this.#sweepAt--;
      } else {
        tenures.recycle(this.#sweepTenures);
        this.#sweepTenures = 0;
        break;
      }
    }
    return !this.isIdle;
  }

  /** Frees some blocks, but not `pinned`. @returns how many; 0 when there is nothing to free */
  evict(pinned: number): number {
    let block = this.#canEvict(this.#evictNext, pinned) ? this.#evictNext : this.#nextEnd(pinned);
    let freed = 0;
    while (block !== ROOT) {
      block = this.#holdings.evict(block);
      freed++;
      if (freed === EVICTED_TOGETHER || !this.#canEvict(block, pinned)) break;
    }
    this.#evictNext = block;
    return freed;
  }

  #canEvict(block: number, pinned: number): boolean {
    const { blocks } = this.#holdings;
    if (block === ROOT || block === pinned || blocks.isFree(block) || blocks.child(block) !== 0) return false;
    return (blocks.holders(block) & RECENT) === 0;
  }

  /** The next end of a chain that the hand comes to; `ROOT` when there is none. */
  #nextEnd(pinned: number): number {
    const { blocks } = this.#holdings;
    for (let looked = 0; looked < 2 * blocks.top; looked++) {
      this.#evictAt = this.#evictAt + 1 < blocks.top ? this.#evictAt + 1 : 1;
      let block = this.#evictAt;
      if (blocks.isFree(block)) continue;
      if (looked < LOOKED_AT_MAX) {
        if (blocks.child(block) !== 0 || this.#isSpared(block)) continue;
      } else while (blocks.child(block) !== 0) block = blocks.child(block);
      if (block !== pinned) return block;
    }
    return ROOT;
  }

  #isSpared(block: number): boolean {
    const { blocks } = this.#holdings;
    const holders = blocks.holders(block);
    if ((holders & RECENT) === 0) return false;
    blocks.setHolders(block, holders & ~RECENT);
    return true;
  }
}
