import { ROOT } from './block-records.ts';
import { RECENT } from './holder-sets.ts';
import type { Residency } from './residency.ts';

/** Blocks of one chain that give way together. */
const EVICTED_TOGETHER = 16;
/** Blocks looked at before one that was stored again of late gives way all the same. */
const LOOKED_AT_MAX = 4096;

/**
 * Second chance: a hand goes round the blocks and frees what was stored longest ago, chains from their ends up. A chain
 * that was stored again since the hand's last visit is spared once.
 */
export class ClockEviction {
  readonly #residency: Residency;
  #at = 0;
  /** What the last chain that gave way ends with now. */
  #next = ROOT;

  constructor(residency: Residency) {
    this.#residency = residency;
  }

  /** Frees some blocks, but not `pinned`. @returns how many; 0 when there is nothing to free */
  evict(pinned: number): number {
    let block = this.#canEvict(this.#next, pinned) ? this.#next : this.#nextEnd(pinned);
    let freed = 0;
    while (block !== ROOT) {
      block = this.#residency.evict(block);
      freed++;
      if (freed === EVICTED_TOGETHER || !this.#canEvict(block, pinned)) break;
    }
    this.#next = block;
    return freed;
  }

  #canEvict(block: number, pinned: number): boolean {
    const { blocks } = this.#residency;
    if (block === ROOT || block === pinned || blocks.isFree(block) || blocks.child(block) !== 0) return false;
    return (blocks.holders(block) & RECENT) === 0;
  }

  /** The next end of a chain that the hand comes to; `ROOT` when there is none. */
  #nextEnd(pinned: number): number {
    const { blocks } = this.#residency;
    for (let looked = 0; looked < 2 * blocks.top; looked++) {
      this.#at = this.#at + 1 < blocks.top ? this.#at + 1 : 1;
      let block = this.#at;
      if (blocks.isFree(block)) continue;
      if (looked < LOOKED_AT_MAX) {
        if (blocks.child(block) !== 0 || this.#isSpared(block)) continue;
      } else while (blocks.child(block) !== 0) block = blocks.child(block);
      if (block !== pinned) return block;
    }
    return ROOT;
  }

  #isSpared(block: number): boolean {
    const { blocks } = this.#residency;
    const holders = blocks.holders(block);
    if ((holders & RECENT) === 0) return false;
    blocks.setHolders(block, holders & ~RECENT);
    return true;
  }
}
