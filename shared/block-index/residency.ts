import { BlockRecords, ROOT } from './block-records.ts';
import { Cuts } from './cuts.ts';
import { EngineHashes } from './engine-hashes.ts';
import { LOOKED_AT_PER_HASH } from './event-work.ts';
import { BLOCK, HashTable, kindOf, numberOf, PRIVATE_HASH, SHARED_HASH, type U64Set } from './hash-table.ts';
import {
  ALONE,
  BY_PRIVATE_HASH,
  BY_SHARED_HASH,
  fastest,
  HOLDER_MASK,
  HolderSets,
  INCARNATION_SHIFT,
  RECENT,
  TIER_BITS,
  TIERS_MASK,
} from './holder-sets.ts';
import { Incarnations } from './incarnations.ts';
import { type MemoryUse, PagedWords } from './memory.ts';

type FiveWords = [PagedWords, PagedWords, PagedWords, PagedWords, PagedWords];

/**
 * Blocks, their holders and their engine hashes, kept consistent. The holdings of an incarnation reach back to the
 * start of its prompts: it holds a block in a tier only while it holds the parent in that tier or a faster one.
 */
export class Residency {
  /** Words of the records by kind of entry. The last ones belong to records without an entry. */
  readonly words: readonly PagedWords[];
  readonly table: HashTable;
  readonly blocks: BlockRecords;
  readonly engineHashes: EngineHashes;
  readonly incarnations = new Incarnations();
  readonly sets: HolderSets;
  /** Work that removals have left. */
  readonly cuts = new Cuts(this);
  /** Block that `Gc` may have left without holders and must still free; `ROOT` = none. */
  bare = ROOT;
  /** Places in rows of siblings, kept valid while blocks are removed. */
  readonly cursors = new Set<{ next: number }>();
  readonly #use: MemoryUse = { bytes: 0 };
  readonly #below: number[] = [];
  readonly #tiers: number[] = [];
  readonly #looksMax: number;
  #looksLeft = 0;

  /**
   * @param setGranulesMax room for sets of holders, 16 bytes each
   * @param looksMax blocks below a removed one that every event may check; the rest is left to `cuts`
   */
  constructor(setGranulesMax: number, looksMax: number) {
    this.#looksMax = looksMax;
    const [blocks, shared, own, sets, locals] = [0, 1, 2, 3, 4].map(() => new PagedWords(this.#use)) as FiveWords;
    this.words = [blocks, shared, own, sets, locals];
    this.table = new HashTable([blocks, shared, own, sets], this.#use);
    this.blocks = new BlockRecords(blocks, locals, this.table);
    this.engineHashes = new EngineHashes(shared, own, this.table);
    this.sets = new HolderSets(sets, this.table, setGranulesMax);
  }

  /** Begins a new event, to which later removals belong. @param hashes number of hashes that the event names */
  beginEvent(hashes: number): void {
    this.cuts.beginEvent();
    this.#looksLeft = this.#looksMax === 0 ? 0 : this.#looksMax + LOOKED_AT_PER_HASH * hashes;
  }

  /** Returns the tiers of the incarnation, by the way in which the block was hashed. */
  tiersOf(block: number, incarnation: number): number {
    return this.sets.tiersOf(this.blocks.holders(block), incarnation);
  }

  /** Ends the rank's incarnation: its holdings are invisible from now on. */
  end(rank: number): void {
    this.cuts.leftBy(this.incarnations.find(rank));
    this.incarnations.end(rank);
  }

  /**
   * Returns the block that the incarnation's engine calls by this hash and that it holds in `tier` or a faster one; -1
   * if there is none.
   */
  findHeld(incarnation: number, low: number, high: number, tier: number): number {
    let block = 0;
    if (this.incarnations.hasOwnHashes[incarnation] === 0) {
      const last = this.incarnations.last[incarnation] as number;
      block = this.blocks.hasHash(last, low, high) ? last : this.table.findBlock(low, high);
      if (block !== 0 && this.cuts.has(incarnation)) this.cuts.settle(block, incarnation);
    } else {
      const entry = this.find(incarnation, low, high);
      if (entry !== 0) block = this.blockOf(entry);
    }
    return block !== 0 && fastest(this.tiersOf(block, incarnation)) <= tier ? block : -1;
  }

  /** Returns the entry of the table under which `incarnation` holds a block by this engine hash; 0 if it does not. */
  find(incarnation: number, low: number, high: number): number {
    let entry = this.#findUnsettled(incarnation, low, high);
    if (!this.cuts.has(incarnation)) return entry;
    for (let before = 0; entry !== 0 && entry !== before; ) {
      this.cuts.settle(this.blockOf(entry), incarnation);
      before = entry;
      entry = this.#findUnsettled(incarnation, low, high);
    }
    return entry;
  }

  /** Returns that entry even if its block has been cut off. */
  #findUnsettled(incarnation: number, low: number, high: number): number {
    if (this.incarnations.hasOwnHashes[incarnation] === 0) {
      const block = this.table.findBlock(low, high);
      return block !== 0 && this.tiersOf(block, incarnation) !== 0 ? block : 0;
    }
    this.table.seek(low, high);
    for (let entry = this.table.next(); entry !== 0; entry = this.table.next()) {
      if (this.#tiersBy(entry, incarnation) !== 0) return entry;
    }
    return 0;
  }

  /** Returns the block that an entry stands for. */
  blockOf(entry: number): number {
    return kindOf(entry) === PRIVATE_HASH ? this.engineHashes.blockOf(numberOf(entry)) : numberOf(entry);
  }

  /** Returns the tiers in which the incarnation holds the entry's block by the entry's hash. */
  #tiersBy(entry: number, incarnation: number): number {
    const number = numberOf(entry);
    switch (kindOf(entry)) {
      case BLOCK:
        return this.tiersOf(number, incarnation) & TIER_BITS;
      case PRIVATE_HASH:
        return this.engineHashes.incarnationOf(number) === incarnation ? this.engineHashes.tiersOf(number) : 0;
      case SHARED_HASH:
        return (this.tiersOf(number, incarnation) >>> BY_SHARED_HASH) & TIER_BITS;
      default:
        return 0;
    }
  }

  /** Changes the tiers in which `incarnation` holds the block from `before` to `after`. */
  change(block: number, incarnation: number, before: number, after: number): void {
    if (before === after) return;
    const holders = this.blocks.holders(block);
    this.blocks.setHolders(block, this.sets.replace(holders, incarnation, after) | (holders & RECENT));
    const { blocks } = this.incarnations;
    if (before === 0) blocks[incarnation] = (blocks[incarnation] as number) + 1;
    else if (after === 0) this.incarnations.leaveBlock(incarnation);
  }

  /**
   * Removes a block from its only holder, this incarnation, if the block has Stator's hash, no children, and no tiers
   * except those of `lost`. Most removals of engines are such, because engines remove blocks from the ends of chains.
   * @returns false, without changes, in any other case
   */
  dropLeaf(incarnation: number, low: number, high: number, lost: number): boolean {
    if (this.incarnations.hasOwnHashes[incarnation] !== 0 || this.cuts.has(incarnation)) return false;
    const block = this.table.findBlock(low, high);
    if (block === 0 || !this.blocks.isLeafOf(block, ALONE | (incarnation << INCARNATION_SHIFT) | lost)) return false;
    this.incarnations.leaveBlock(incarnation);
    this.giveBack(this.#remove(block));
    return true;
  }

  /**
   * Removes the tiers of `lost` from the incarnation's holding of the block by the entry's hash. Also removes the
   * holdings that this cuts off, and puts their hashes in `cuts.lost`.
   * @returns whether it held the block in any of these tiers
   */
  drop(incarnation: number, entry: number, lost: number): boolean {
    const held = this.#tiersBy(entry, incarnation);
    if ((held & lost) === 0) return false;
    const block = this.blockOf(entry);
    const before = this.tiersOf(block, incarnation);
    let after = before;
    switch (kindOf(entry)) {
      case BLOCK:
        after &= ~lost;
        break;
      case PRIVATE_HASH:
        this.engineHashes.keepTiers(numberOf(entry), ~lost);
        after &= ~(TIER_BITS << BY_PRIVATE_HASH);
        after |= this.engineHashes.privateTiers(block, incarnation) << BY_PRIVATE_HASH;
        break;
      default:
        after &= ~(lost << BY_SHARED_HASH);
        if ((held & ~lost) === 0) this.engineHashes.releaseShared(block);
    }
    this.change(block, incarnation, before, after);
    if (this.blocks.child(block) !== 0 && fastest(after) > fastest(before)) this.#cutBelow(block, incarnation, after);
    this.giveBack(block);
    return true;
  }

  /**
   * Cuts the holdings below the block that the incarnation has in faster tiers than `tiers`, in which it still holds
   * the block.
   */
  #cutBelow(block: number, incarnation: number, tiers: number): void {
    // It holds the blocks above in any case. If it holds no others, there is nothing to search for.
    const above = this.blocks.depth(block) - (tiers === 0 ? 1 : 0);
    if (this.incarnations.blocks[incarnation] === above) return;
    if (this.cuts.has(incarnation))
      this.cuts.add(block, incarnation, fastest(tiers)); // each cut names its event
    else this.#dropBelow(block, incarnation, fastest(tiers));
  }

  /** Removes holdings at once as far as the event may check blocks, and by cuts from there on. */
  #dropBelow(block: number, incarnation: number, tier: number): void {
    const below = this.#below;
    const tiers = this.#tiers;
    below.push(block);
    tiers.push(tier);
    let at = 0;
    for (; at < below.length && this.#looksLeft > 0; at++) {
      const kept = tiers[at] as number;
      let child = this.blocks.child(below[at] as number);
      for (; child !== 0 && this.#looksLeft > 0; child = this.blocks.next(child)) {
        this.#looksLeft--;
        const before = this.tiersOf(child, incarnation);
        // The holdings below an unchanged block are in no faster tier than that.
        if (fastest(before) >= kept) continue;
        below.push(child);
        tiers.push(fastest(this.lose(child, incarnation, before, (TIER_BITS << kept) & TIER_BITS, this.cuts.lost)));
      }
      if (child !== 0) break;
    }
    for (let rest = at; rest < below.length; rest++) {
      const bare = below[rest] as number;
      if (this.blocks.child(bare) !== 0) this.cuts.add(bare, incarnation, tiers[rest] as number);
    }
    for (let each = below.length - 1; each > 0; each--) {
      if (this.#isBare(below[each] as number)) this.#remove(below[each] as number);
    }
    below.length = 0;
    tiers.length = 0;
  }

  /**
   * Reduces the incarnation's holding of the block, so far in `before`, to the tiers in `kept`.
   * @param hashes receives the engine hashes of the block
   * @returns the tiers left
   */
  lose(block: number, incarnation: number, before: number, kept: number, hashes: U64Set | undefined): number {
    if (hashes !== undefined) this.#noteHashes(block, incarnation, before, TIER_BITS & ~kept, hashes);
    const after = this.keep(block, incarnation, before, kept);
    this.change(block, incarnation, before, after);
    return after;
  }

  #noteHashes(block: number, incarnation: number, tiers: number, lost: number, cut: U64Set): void {
    if ((tiers & lost) !== 0) cut.add(this.blocks.low(block), this.blocks.high(block));
    if (((tiers >>> BY_SHARED_HASH) & lost) !== 0)
      cut.add(this.engineHashes.sharedLow(block), this.engineHashes.sharedHigh(block));
    if (tiers >>> BY_PRIVATE_HASH === 0) return;
    for (let hash = this.engineHashes.firstPrivate(block); hash !== 0; hash = this.engineHashes.nextPrivate(hash)) {
      if (this.engineHashes.incarnationOf(hash) !== incarnation || (this.engineHashes.tiersOf(hash) & lost) === 0)
        continue;
      cut.add(this.engineHashes.low(hash), this.engineHashes.high(hash));
    }
  }

  /** Frees the hashes of a holding that is reduced to the tiers in `kept`. @returns the tiers left */
  keep(block: number, incarnation: number, tiers: number, kept: number): number {
    if (tiers <= TIER_BITS) return tiers & kept;
    const shared = (tiers >>> BY_SHARED_HASH) & TIER_BITS;
    if (shared !== 0 && (shared & kept) === 0) this.engineHashes.releaseShared(block);
    const own = tiers >>> BY_PRIVATE_HASH === 0 ? 0 : this.engineHashes.keepPrivate(block, incarnation, kept);
    return (tiers & kept) | ((shared & kept) << BY_SHARED_HASH) | (own << BY_PRIVATE_HASH);
  }

  /** Frees the block if it has no holders and no children. Then does the same for the blocks above it. */
  giveBack(block: number): void {
    let at = block;
    while (at !== ROOT && !this.blocks.isFree(at) && this.#isBare(at)) at = this.#remove(at);
  }

  /** Does one step of `giveBack`. @returns the next block to check; `ROOT` if there is none */
  giveBackOne(block: number): number {
    if (this.blocks.isFree(block) || !this.#isBare(block)) return ROOT;
    const parent = this.#remove(block);
    return parent !== ROOT && this.#isBare(parent) ? parent : ROOT;
  }

  #isBare(block: number): boolean {
    return (this.blocks.holders(block) & ~RECENT) === 0 && this.blocks.child(block) === 0;
  }

  /**
   * Removes the block, which has no children, from all holders. @returns its parent if that has no children left, else
   * 0
   */
  evict(block: number): number {
    const holders = this.blocks.holders(block);
    if ((holders & ALONE) !== 0) this.#lose(block, (holders & HOLDER_MASK) >>> INCARNATION_SHIFT, holders & TIERS_MASK);
    else if ((holders & HOLDER_MASK) !== 0) {
      const page = this.sets.pageOf(holders);
      const from = this.sets.membersAt(holders);
      const to = from + this.sets.countOf(holders);
      for (let at = from; at < to; at++) {
        this.#lose(block, (page[at] as number) >>> INCARNATION_SHIFT, (page[at] as number) & TIERS_MASK);
      }
      this.sets.release(holders);
    }
    return this.#remove(block);
  }

  /**
   * Frees the last record, which is not in use. If this frees a page, the table has fewer entries to keep.
   * @returns whether a page was freed
   */
  retire(): boolean {
    if (!this.blocks.retire()) return false;
    this.engineHashes.cutTo(this.blocks.top);
    return true;
  }

  /** @returns its parent if that has no children left, else 0 */
  #remove(block: number): number {
    if (!this.cuts.isEmpty) this.cuts.left(block);
    if (this.cursors.size > 0) {
      for (const cursor of this.cursors) if (cursor.next === block) cursor.next = this.blocks.next(block);
    }
    return this.blocks.remove(block);
  }

  #lose(block: number, incarnation: number, tiers: number): void {
    this.keep(block, incarnation, tiers, 0);
    this.incarnations.leaveBlock(incarnation);
  }

  /**
   * Removes ended incarnations from the block, which may then have no holder. @returns the number of holders checked
   */
  sweep(block: number): number {
    const holders = this.blocks.holders(block);
    const { ranks } = this.incarnations;
    if ((holders & ALONE) !== 0) {
      const incarnation = (holders & HOLDER_MASK) >>> INCARNATION_SHIFT;
      if ((ranks[incarnation] as number) >= 0) return 1;
      this.keep(block, incarnation, holders & TIERS_MASK, 0);
      this.blocks.setHolders(block, holders & RECENT);
      return 1;
    }
    const count = this.sets.countOf(holders);
    if (count === 0) return 1;
    const page = this.sets.pageOf(holders);
    const from = this.sets.membersAt(holders);
    let isStale = false;
    for (let at = from; at < from + count; at++) {
      const incarnation = (page[at] as number) >>> INCARNATION_SHIFT;
      if ((ranks[incarnation] as number) >= 0) continue;
      this.keep(block, incarnation, (page[at] as number) & TIERS_MASK, 0);
      isStale = true;
    }
    if (isStale) this.blocks.setHolders(block, this.sets.living(holders, ranks) | (holders & RECENT));
    return count;
  }

  /** Rebuilds its lists, in slices, after the words were replaced by those of a snapshot. */
  *restore(blocksTop: number, hashesTop: number, setsTop: number): Generator<void, void> {
    this.blocks.restore(blocksTop); // those that are left
    yield* this.engineHashes.restore(blocksTop, hashesTop);
    yield* this.sets.restore(setsTop);
    yield* this.table.fill();
  }

  /** Bytes of memory for records and their table. Pages that are not written yet take no memory of the machine. */
  get bytes(): number {
    return this.#use.bytes;
  }
}
