import { BLOCKS_PER_PAGE, ROOT } from './block-records.ts';
import { RECENT } from './holder-sets.ts';
import type { Residency } from './residency.ts';

/** Blocks that take as long as one step of a cut. */
const STEP_BLOCKS = 4;
/** Holders of a block, as a power of two, that take as long as a block. */
const HOLDERS_SHIFT = 5;

/** Segments of the table that are checked for each freed page of blocks; a page fills about five. */
const MERGES_PER_PAGE = 64;
/** Blocks that take as long as one check of a segment. */
const MERGE_BLOCKS = 64;

/**
 * The work that is left after events. Cuts are moved down. Ended incarnations are removed from the blocks, from the
 * youngest block on, so that most have no children by then. Pages that must go are emptied.
 */
export class Gc {
  readonly #residency: Residency;
  #sweepAt = 0;
  /** Number of incarnations that this round of the sweep frees. */
  #sweepIncarnations = 0;
  /** Number from which on records must go. */
  #keptTop = Number.POSITIVE_INFINITY;
  /**
   * Block that the trim has reached, between the last record and the end of a chain below it. Its hash is kept, too,
   * because another block may get its number.
   */
  #trimAt = ROOT;
  #trimLast = ROOT;
  #trimLow = 0;
  #trimHigh = 0;
  #mergesLeft = 0;
  #trimmed = 0;

  constructor(residency: Residency) {
    this.#residency = residency;
  }

  get isIdle(): boolean {
    const { incarnations, cuts } = this.#residency;
    const isSwept = this.#sweepIncarnations === 0 && incarnations.endedCount === 0 && cuts.isEmpty;
    return isSwept && this.#residency.bare === ROOT && !this.#isTrimming && this.#mergesLeft === 0;
  }

  get #isTrimming(): boolean {
    return this.#residency.blocks.top > this.#keptTop;
  }

  /** Frees one page of blocks over time: the blocks in it, and all blocks below them. The first page stays. */
  trim(): void {
    if (this.#isTrimming) return;
    const { blocks } = this.#residency;
    this.#keptTop = BLOCKS_PER_PAGE * Math.max(1, Math.ceil(blocks.top / BLOCKS_PER_PAGE) - 1);
    blocks.keepTo(this.#keptTop);
  }

  /** Returns the number of blocks that `trim` has evicted since the last call. */
  takeTrimmed(): number {
    const trimmed = this.#trimmed;
    this.#trimmed = 0;
    return trimmed;
  }

  /** Checks up to `blocksMax` blocks. @returns whether more is left to do */
  sweep(blocksMax: number): boolean {
    const { cuts } = this.#residency;
    for (let left = blocksMax; left > 0; left--) {
      if (this.#residency.bare !== ROOT) this.#residency.bare = this.#residency.giveBackOne(this.#residency.bare);
      else if (!cuts.isEmpty) {
        this.#residency.bare = cuts.step();
        left -= STEP_BLOCKS - 1;
      } else if (this.#beginRound()) left -= this.#sweepOne() >>> HOLDERS_SHIFT;
      else if (this.#isTrimming) this.#trimOne();
      else if (this.#mergesLeft > 0) {
        this.#mergesLeft--;
        this.#residency.table.merge();
        left -= MERGE_BLOCKS;
      } else return false;
    }
    return !this.isIdle;
  }

  /** Begins a round. Returns false if there are no ended incarnations to remove from blocks. */
  #beginRound(): boolean {
    if (this.#sweepIncarnations > 0) return true;
    const { blocks, incarnations } = this.#residency;
    this.#sweepIncarnations = incarnations.endedCount;
    this.#sweepAt = blocks.top - 1;
    return this.#sweepIncarnations > 0;
  }

  /** Checks the next block of the round, or ends the round. @returns the number of holders checked */
  #sweepOne(): number {
    const { blocks, incarnations } = this.#residency;
    if (this.#sweepAt > 0) {
      this.#residency.bare = this.#sweepAt--; // it may lie beyond the freed pages, and then counts as free
      return blocks.isFree(this.#residency.bare) ? 0 : this.#residency.sweep(this.#residency.bare);
    }
    incarnations.recycle(this.#sweepIncarnations);
    this.#sweepIncarnations = 0;
    return 0;
  }

  /**
   * Frees the last record if it is unused. Otherwise frees the blocks below it, from the ends up, one step at a time.
   */
  #trimOne(): void {
    const { blocks } = this.#residency;
    const last = blocks.top - 1;
    if (blocks.isFree(last)) {
      if (this.#residency.retire()) this.#mergesLeft = MERGES_PER_PAGE;
      if (this.#isTrimming) return;
      this.#keptTop = Number.POSITIVE_INFINITY;
      blocks.keepTo(this.#keptTop);
      return;
    }
    const isOnWay = this.#trimLast === last && blocks.hasHash(this.#trimAt, this.#trimLow, this.#trimHigh);
    const at = isOnWay ? this.#trimAt : last;
    const child = blocks.child(at);
    this.#trimLast = last;
    this.#trimAt = child !== 0 ? child : at === last ? ROOT : blocks.parentOf(at);
    this.#trimLow = blocks.low(this.#trimAt);
    this.#trimHigh = blocks.high(this.#trimAt);
    if (child !== 0) return;
    this.#residency.evict(at);
    this.#trimmed++;
  }
}

/** Blocks of one chain that are evicted together. */
const EVICTED_TOGETHER = 16;
/** Blocks checked before one that was stored again recently is evicted nevertheless. */
const LOOKED_AT_MAX = 4096;

/**
 * Evicts by second chance: a hand goes round the blocks and frees those stored longest ago, chains from their ends up.
 * It spares a chain once if that was stored again since its last visit.
 */
export class ClockEviction {
  readonly #residency: Residency;
  #at = 0;
  /** Block with which the last evicted chain now ends. */
  #next = ROOT;

  constructor(residency: Residency) {
    this.#residency = residency;
  }

  /** Frees some blocks, but not `pinned`. @returns how many; 0 if there is nothing to free */
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

  /** Returns the end of the next chain that the hand reaches; `ROOT` if there is none. */
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
