import { type BlockRecords, ROOT } from './block-records.ts';
import { U64Set } from './hash-table.ts';
import { fastest, NOT_HELD, TIER_BITS } from './holder-sets.ts';

/** The children of a block were not looked at yet. */
const NOT_BEGUN = -1;
/**
 * Blocks with cuts that are looked up in a chain one by one; where there are more, the chain is looked through instead.
 */
const LOOKED_UP_MAX = 64;
/** Of a cut in a snapshot, before the children that it passes over. */
const HEAD_WORDS = 4;

/** The blocks that are cut, and who holds them: a part of `Residency`. */
interface HeldBlocks {
  readonly blocks: BlockRecords;
  readonly bare: number;
  tiersOf(block: number, incarnation: number): number;
  lose(block: number, incarnation: number, before: number, kept: number, hashes: U64Set | undefined): number;
  giveBack(block: number): void;
}

/** Blocks that an incarnation lost with the one above them, as far as nobody has come to them yet. */
interface Cut {
  readonly block: number;
  readonly incarnation: number;
  /** The incarnation keeps the block's children in this tier and slower ones, and so on below them. */
  readonly tier: number;
  /** The event that made it. */
  readonly event: number;
  /** The child to look at next; 0 = none is left. */
  cursor: number;
  /** Children that were put right out of turn and stored again since. */
  done: Set<number> | undefined;
  isOver: boolean;
}

/**
 * What removals have yet to take along. A block that goes cuts off all below it, perhaps a million blocks, and even to
 * see that there is nothing may take a look at every conversation that goes on from a system prompt. So the block alone
 * goes at once, and a cut stands for what lies below:
 *
 *     A --> B      <-- the incarnation lost B: a cut at B, what it held of C, D, E counts no more
 *           |--> C --> E
 *           '--> D
 *
 * `step` moves it down, child by child, until nothing is left of it. Whoever wants to know what the incarnation holds
 * of a block before that has the cuts above it moved down to it first (`settle`), so that nobody ever sees what was cut
 * off. There is at most one cut for each holding and tier.
 */
export class Cuts {
  /** What engines call the blocks that the present event has cut off. */
  readonly lost = new U64Set();
  readonly #residency: HeldBlocks;
  readonly #byBlock = new Map<number, Cut[]>();
  /** The newest last, which is moved first: what it leads to is at hand, and few are open at a time. */
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

  /** Whether anything of the incarnation is cut off. */
  has(incarnation: number): boolean {
    return this.#open.length > 0 && this.#ofIncarnation.has(incarnation);
  }

  /** What is cut off from now on belongs to another event. */
  beginEvent(): void {
    this.#event++;
    this.lost.clear();
  }

  /** The incarnation keeps what lies below the block only in `tier` and slower tiers; `NOT_HELD` = not at all. */
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

  /** Among those of earlier events, one that cuts off as much as an earlier one stands for both. */
  #mergeOlder(cuts: Cut[], incarnation: number): void {
    const older = cuts.filter((cut) => cut.incarnation === incarnation && cut.event < this.#event);
    for (const [at, cut] of older.entries()) {
      const next = older[at + 1];
      if (next !== undefined && next.tier >= cut.tier) this.#end(cut);
    }
  }

  /**
   * Moves the newest cut on by one child. Call it only where there are cuts.
   * @returns a block that may be held by nobody now
   */
  step(): number {
    const cut = this.#open.at(-1) as Cut; // those at the end are never over
    const { blocks } = this.#residency;
    const child = cut.cursor === NOT_BEGUN ? blocks.child(cut.block) : cut.cursor;
    cut.cursor = child === 0 ? 0 : blocks.next(child);
    if (cut.cursor === 0) this.#end(cut); // before what follows, so that a long chain is not a tall stack
    if (child === 0) return cut.block;
    if (cut.done?.has(child) !== true) this.#apply(cut, child, undefined); // nobody asks what an event cut off after it
    return child;
  }

  /** Puts right what the incarnation holds of the block and of those before it. The block may be gone then. */
  settle(block: number, incarnation: number): void {
    this.#settlePath(block, incarnation);
    this.#residency.giveBack(block);
  }

  /**
   * The same for all incarnations, where cuts lie on the chain.
   * @param sequence hashes of the chain, of which `block` is the last one that is there
   * @returns whether anything was put right
   */
  settleChain(block: number, sequence: Uint32Array): boolean {
    if (!this.#mayCross(this.#residency.blocks.depth(block), sequence)) return false;
    this.#settlePath(block, undefined);
    this.#residency.giveBack(block);
    return true;
  }

  /** As `settle` for a child of a block that is right already. */
  settleBelow(parent: number, child: number, incarnation: number): void {
    this.#settleChild(parent, child, incarnation);
    this.#residency.giveBack(child);
  }

  /**
   * The incarnation is about to hold the child, and perhaps holds it already: what it held of it before is put right,
   * and cuts at its parent pass it over from now on.
   */
  enter(parent: number, child: number, incarnation: number): void {
    this.#settleChild(parent, child, incarnation);
    this.passOver(parent, child, incarnation);
  }

  /** The incarnation holds the child, which is new. */
  passOver(parent: number, child: number, incarnation: number): void {
    for (const cut of this.#byBlock.get(parent) ?? []) {
      if (cut.incarnation !== incarnation) continue;
      cut.done ??= new Set(); // bounded by the children of the block
      cut.done.add(child);
    }
  }

  /** The block is about to be removed. */
  left(block: number): void {
    const { blocks } = this.#residency;
    for (const cut of this.#byBlock.get(block)?.slice() ?? []) this.#end(cut);
    for (const cut of this.#byBlock.get(blocks.parentOf(block)) ?? []) {
      if (cut.cursor === block) cut.cursor = blocks.next(block);
    }
  }

  /** The incarnation has ended: nothing that it held counts. */
  leftBy(incarnation: number): void {
    if (this.has(incarnation))
      for (const cut of this.#open.filter((each) => each.incarnation === incarnation)) this.#end(cut);
  }

  /**
   * All there are, for `restore`: block, incarnation, tier and number of children to pass over, which follow. What is
   * bare is told as a cut of nobody's, which ends with a look at its block.
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
   * The child loses what the cut takes, with the hashes that go to `hashes`, and hands the cut on to its own children.
   */
  #apply({ incarnation, tier, event }: Cut, child: number, hashes: U64Set | undefined): void {
    const residency = this.#residency;
    const before = residency.tiersOf(child, incarnation);
    // What lies below an unchanged block stays as it is, too.
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
