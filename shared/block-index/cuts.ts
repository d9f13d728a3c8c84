import { type BlockRecords, ROOT } from './block-records.ts';
import { U64Set } from './hash-table.ts';
import { fastest, NOT_HELD, TIER_BITS } from './holder-sets.ts';

/** Value of `cursor` before the first child of the block was checked. */
const NOT_BEGUN = -1;
/**
 * Number of blocks with cuts that are looked up in a chain one by one. If there are more, the whole chain is searched.
 */
const LOOKED_UP_MAX = 64;
/** Words of a cut in a snapshot, before the children that it passes over. */
const HEAD_WORDS = 4;

/** The blocks that are cut, and their holders: a part of `Residency`. */
interface HeldBlocks {
  readonly blocks: BlockRecords;
  readonly bare: number;
  tiersOf(block: number, incarnation: number): number;
  lose(block: number, incarnation: number, before: number, kept: number, hashes: U64Set | undefined): number;
  giveBack(block: number): void;
}

/** Blocks that an incarnation lost together with the one above them, and that are still to be updated. */
interface Cut {
  readonly block: number;
  readonly incarnation: number;
  /** Tier of the block's children that the incarnation keeps, along with slower tiers, and so on below them. */
  readonly tier: number;
  /** Event that made the cut. */
  readonly event: number;
  /** Child to check next; 0 = none is left. */
  cursor: number;
  /** Children that were already updated out of turn and stored again since. */
  done: Set<number> | undefined;
  isOver: boolean;
}

/**
 * The work that removals have left. A removed block cuts off all blocks below it, perhaps a million. Even to find that
 * there are none may require a check of every conversation that continues a system prompt. So only the block itself is
 * removed at once, and a cut stands for the blocks below it:
 *
 *     A --> B      <-- the incarnation lost B: a cut at B, its holdings of C, D, E no longer count
 *           |--> C --> E
 *           '--> D
 *
 * `step` moves the cut down, child by child, until nothing is left of it. Code that reads the holdings of an
 * incarnation first moves the cuts above the block down to it (`settle`), so that it never sees what was cut off. There
 * is at most one cut for each holding and tier.
 */
export class Cuts {
  /** Engine hashes of the blocks that the present event has cut off. */
  readonly lost = new U64Set();
  readonly #residency: HeldBlocks;
  readonly #byBlock = new Map<number, Cut[]>();
  /**
   * Cuts with the newest last. It moves first: its blocks are still in the cache, and few cuts are then open at a time.
   */
  readonly #open: Cut[] = [];
  readonly #ofIncarnation = new Map<number, number>();
  readonly #path: number[] = [];
  #event = 0;

  constructor(residency: HeldBlocks) {
    this.#residency = residency;
  }

  get isEmpty(): boolean {
    return this.#open.length === 0;
  }

  /** Whether any holding of the incarnation is cut off. */
  has(incarnation: number): boolean {
    return this.#open.length > 0 && this.#ofIncarnation.has(incarnation);
  }

  /** Begins a new event, to which later cuts belong. */
  beginEvent(): void {
    this.#event++;
    this.lost.clear();
  }

  /** Adds a cut: below the block, the incarnation keeps only holdings in `tier` and slower tiers; `NOT_HELD` = none. */
  add(block: number, incarnation: number, tier: number, event = this.#event): void {
    const cut: Cut = { block, incarnation, tier, event, cursor: NOT_BEGUN, done: undefined, isOver: false };
    const cuts = this.#byBlock.get(block);
    if (cuts === undefined) this.#byBlock.set(block, [cut]);
    else {
      this.#mergeOlder(cuts, incarnation);
      cuts.push(cut);
    }
    this.#open.push(cut);
    this.#ofIncarnation.set(incarnation, (this.#ofIncarnation.get(incarnation) ?? 0) + 1);
  }

  /** Merges cuts of earlier events: ends one if a newer one cuts off as much. */
  #mergeOlder(cuts: Cut[], incarnation: number): void {
    const older = cuts.filter((cut) => cut.incarnation === incarnation && cut.event < this.#event);
    for (const [at, cut] of older.entries()) {
      const next = older[at + 1];
      if (next !== undefined && next.tier >= cut.tier) this.#end(cut);
    }
  }

  /**
   * Moves the newest cut on by one child. Call it only if there are cuts.
   * @returns a block that may have no holder now
   */
  step(): number {
    const cut = this.#open.at(-1) as Cut; // the last one is never finished
    const { blocks } = this.#residency;
    const child = cut.cursor === NOT_BEGUN ? blocks.child(cut.block) : cut.cursor;
    cut.cursor = child === 0 ? 0 : blocks.next(child);
    if (cut.cursor === 0) this.#end(cut); // before the next cut, so that a long chain does not make a deep stack
    if (child === 0) return cut.block;
    // After an event, no code reads the hashes that it cut off.
    if (cut.done?.has(child) !== true) this.#apply(cut, child, undefined);
    return child;
  }

  /**
   * Applies the cuts above a block to the incarnation's holdings of it and of the blocks before it. The block may then
   * be gone.
   */
  settle(block: number, incarnation: number): void {
    this.#settlePath(block, incarnation);
    this.#residency.giveBack(block);
  }

  /**
   * Applies the cuts on the chain for all incarnations.
   * @param sequence hashes of the chain, of which `block` is the last one that is there
   * @returns whether any cut applied
   */
  settleChain(block: number, sequence: Uint32Array): boolean {
    if (!this.#mayCross(this.#residency.blocks.depth(block), sequence)) return false;
    this.#settlePath(block, undefined);
    this.#residency.giveBack(block);
    return true;
  }

  /** Does the work of `settle` for a child of a block that is already settled. */
  settleBelow(parent: number, child: number, incarnation: number): void {
    this.#settleChild(parent, child, incarnation);
    this.#residency.giveBack(child);
  }

  /**
   * Prepares for the incarnation to hold the child, which it may already hold. Applies the cuts to its earlier holding,
   * and makes cuts at the parent pass over the child from now on.
   */
  enter(parent: number, child: number, incarnation: number): void {
    this.#settleChild(parent, child, incarnation);
    this.passOver(parent, child, incarnation);
  }

  /** Makes cuts at the parent pass over the child, which is new and held by the incarnation. */
  passOver(parent: number, child: number, incarnation: number): void {
    for (const cut of this.#byBlock.get(parent) ?? []) {
      if (cut.incarnation !== incarnation) continue;
      cut.done ??= new Set(); // bounded by the children of the block
      cut.done.add(child);
    }
  }

  /** Drops the cuts of a block before its removal. */
  left(block: number): void {
    const { blocks } = this.#residency;
    for (const cut of this.#byBlock.get(block)?.slice() ?? []) this.#end(cut);
    for (const cut of this.#byBlock.get(blocks.parentOf(block)) ?? []) {
      if (cut.cursor === block) cut.cursor = blocks.next(block);
    }
  }

  /** Drops the cuts of an incarnation that has ended: none of its holdings counts. */
  leftBy(incarnation: number): void {
    if (this.has(incarnation))
      for (const cut of this.#open.filter((each) => each.incarnation === incarnation)) this.#end(cut);
  }

  /**
   * Returns all cuts, for `restore`: block, incarnation, tier and number of children to pass over, which follow. A bare
   * block becomes a cut without an incarnation, which ends with a check of its block.
   */
  toWords(): Int32Array {
    const { bare } = this.#residency;
    const words = bare === ROOT ? [] : [bare, 0, NOT_HELD, 0];
    for (const { block, incarnation, tier, done, isOver } of this.#open) {
      if (!isOver) words.push(block, incarnation, tier, done?.size ?? 0, ...(done ?? []));
    }
    return Int32Array.from(words);
  }

  restore(words: Int32Array): void {
    for (let at = 0; at < words.length; ) {
      const [block = 0, incarnation = 0, tier = 0, count = 0] = words.subarray(at, at + HEAD_WORDS);
      at += HEAD_WORDS;
      this.add(block, incarnation, tier);
      if (count > 0) (this.#open.at(-1) as Cut).done = new Set(words.subarray(at, at + count));
      at += count;
    }
  }

  #mayCross(depth: number, sequence: Uint32Array): boolean {
    if (this.#byBlock.size > LOOKED_UP_MAX) return true;
    const { blocks } = this.#residency;
    for (const block of this.#byBlock.keys()) {
      const above = blocks.depth(block);
      if (above >= depth) continue;
      const at = 2 * above - 2;
      if (
        ((sequence[at] as number) | 0) === blocks.low(block) &&
        ((sequence[at + 1] as number) | 0) === blocks.high(block)
      )
        return true;
    }
    return false;
  }

  #settlePath(block: number, incarnation: number | undefined): void {
    const { blocks } = this.#residency;
    const path = this.#path;
    for (let at = block; at !== ROOT; at = blocks.parentOf(at)) path.push(at);
    for (let at = path.length - 1; at > 0; at--) {
      this.#settleChild(path[at] as number, path[at - 1] as number, incarnation);
    }
    path.length = 0;
  }

  #settleChild(parent: number, child: number, incarnation: number | undefined): void {
    const cuts = this.#byBlock.get(parent);
    if (cuts === undefined) return;
    const { blocks } = this.#residency;
    const isOnly = blocks.child(parent) === child && blocks.next(child) === 0;
    for (const cut of isOnly ? cuts.slice() : cuts) {
      if (incarnation !== undefined && cut.incarnation !== incarnation) continue;
      if (cut.done?.has(child) !== true) this.#apply(cut, child, cut.event === this.#event ? this.lost : undefined);
      if (isOnly) this.#end(cut);
    }
  }

  /**
   * Removes from the child what the cut takes, adds the removed hashes to `hashes`, and passes the cut on to the
   * child's own children.
   */
  #apply({ incarnation, tier, event }: Cut, child: number, hashes: U64Set | undefined): void {
    const residency = this.#residency;
    const before = residency.tiersOf(child, incarnation);
    // The holdings below an unchanged block stay as they are, too.
    if (fastest(before) >= tier) return;
    const after = residency.lose(child, incarnation, before, (TIER_BITS << tier) & TIER_BITS, hashes);
    if (residency.blocks.child(child) !== 0) this.add(child, incarnation, fastest(after), event);
  }

  #end(cut: Cut): void {
    cut.isOver = true;
    const { block, incarnation } = cut;
    const cuts = this.#byBlock.get(block) ?? [];
    cuts.splice(cuts.indexOf(cut), 1);
    if (cuts.length === 0) this.#byBlock.delete(block);
    const left = (this.#ofIncarnation.get(incarnation) ?? 0) - 1;
    if (left === 0) this.#ofIncarnation.delete(incarnation);
    else this.#ofIncarnation.set(incarnation, left);
    while (this.#open.at(-1)?.isOver === true) this.#open.pop();
  }
}
