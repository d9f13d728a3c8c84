import { RECENT } from './holder-sets.ts';
import type { Holdings } from './holdings.ts';

/** Blocks of one chain that give way together, so that the search for the next one pays. */
const EVICTED_TOGETHER = 16;
/** Blocks looked at before one that was stored again of late gives way all the same. */
const LOOKED_AT_MAX = 4096;

/**
 * Two hands that go round the blocks. One takes ended tenures off them; the other frees those stored longest ago when the
 * index is full: leaves first, and a block that was stored again since its last visit is spared once.
 */
export class Upkeep {
  readonly #holdings: Holdings;
  #sweepAt = 0;
  #sweepEnd = 0;
  /** Tenures that this round of the sweep frees. */
  #sweepTenures = 0;
  #evictAt = 0;

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
      this.#sweepAt = 1;
      this.#sweepEnd = blocks.top;
    }
    const end = Math.min(this.#sweepEnd, this.#sweepAt + blocksMax);
    for (; this.#sweepAt < end; this.#sweepAt++) {
      if (!blocks.isFree(this.#sweepAt)) this.#holdings.sweep(this.#sweepAt);
    }
    if (this.#sweepAt >= this.#sweepEnd) {
      tenures.recycle(this.#sweepTenures);
      this.#sweepTenures = 0;
    }
    return !this.isIdle;
  }

  /** Frees some blocks, but not `pinned`. @returns how many; 0 when there is nothing to free */
  evict(pinned: number): number {
    const { blocks } = this.#holdings;
    for (let looked = 0; looked < 2 * blocks.top; looked++) {
      this.#evictAt = this.#evictAt + 1 < blocks.top ? this.#evictAt + 1 : 1;
      let block = this.#evictAt;
      if (blocks.isFree(block)) continue;
      if (looked < LOOKED_AT_MAX) {
        if (blocks.child(block) !== 0 || this.#isSpared(block)) continue;
      } else while (blocks.child(block) !== 0) block = blocks.child(block);
      if (block === pinned) continue;
      let freed = 1;
      let above = this.#holdings.evict(block);
      while (above !== 0 && above !== pinned && freed < EVICTED_TOGETHER && (blocks.holders(above) & RECENT) === 0) {
        above = this.#holdings.evict(above);
        freed++;
      }
      return freed;
    }
    return 0;
  }

  #isSpared(block: number): boolean {
    const { blocks } = this.#holdings;
    const holders = blocks.holders(block);
    if ((holders & RECENT) === 0) return false;
    blocks.setHolders(block, holders & ~RECENT);
    return true;
  }
}
