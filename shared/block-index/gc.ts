import { BLOCKS_PER_PAGE, ROOT } from './block-records.ts';
import { RECENT } from './holder-sets.ts';
import type { Residency } from './residency.ts';

/** As many blocks as take as long as one step of a cut. */
const STEP_BLOCKS = 4;
/** So many holders of a block, as a power of two, take as long as a block. */
const HOLDERS_SHIFT = 5;

/** Segments of the table that are looked at for each page of blocks that was given back; a page fills about five. */
const MERGES_PER_PAGE = 64;
/** As many blocks as take as long as one of these. */
const MERGE_BLOCKS = 64;

/**
 * What is left to do when events are over: cuts are moved down, ended incarnations are taken off the blocks, from the
 * youngest block on, so that most are free of children when their turn comes, and pages that are to go are emptied.
 */
export class Gc {
  readonly #residency: Residency;
  #sweepAt = 0;
  /** Incarnations that this round of the sweep frees. */
  #sweepIncarnations = 0;
  /** Records from here on are to go. */
  #keptTop = Number.POSITIVE_INFINITY;
  /**
   * On the way between the last of them and the end of a chain below it, with its hash, lest its number serve another.
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

  /**
   * Gives a page of blocks back in the course of time, those that are in it with all that hangs on them; the first page
   * stays.
   */
  trim(): void {
    if (this.#isTrimming) return;
    const { blocks } = this.#residency;
    this.#keptTop = BLOCKS_PER_PAGE * Math.max(1, Math.ceil(blocks.top / BLOCKS_PER_PAGE) - 1);
    blocks.keepTo(this.#keptTop);
  }

  /** Blocks that gave way to `trim` since this was asked last. */
  takeTrimmed(): number {
    const trimmed = this.#trimmed;
    this.#trimmed = 0;
    return trimmed;
  }

  /** Looks at up to `blocksMax` blocks. @returns whether there is more to do */
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

  /** False when there are no ended incarnations to take off blocks. */
  #beginRound(): boolean {
    if (this.#sweepIncarnations > 0) return true;
    const { blocks, incarnations } = this.#residency;
    this.#sweepIncarnations = incarnations.endedCount;
    this.#sweepAt = blocks.top - 1;
    return this.#sweepIncarnations > 0;
  }

  /** The next block of the round, or its end. @returns how many holders were looked at */
  #sweepOne(): number {
    const { blocks, incarnations } = this.#residency;
    if (this.#sweepAt > 0) {
      this.#residency.bare = this.#sweepAt--; // it may lie beyond what was given back, and counts as free then
      return blocks.isFree(this.#residency.bare) ? 0 : this.#residency.sweep(this.#residency.bare);
    }
    incarnations.recycle(this.#sweepIncarnations);
    this.#sweepIncarnations = 0;
    return 0;
  }

  /** The last record goes if it is free; else what hangs on it does, from the ends up, one step at a time. */
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
