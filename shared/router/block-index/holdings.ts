import { BlockRecords, ROOT } from './block-records.ts';
import { BY_PRIVATE_NAME, BY_SHARED_NAME, EngineNames, LEVEL_MASK } from './engine-names.ts';
import { BLOCK, HashTable, kindOf, numberOf, PRIVATE_NAME, SHARED_NAME } from './hash-table.ts';
import { ALONE, HOLDER_MASK, HolderSets, RECENT, TENURE_SHIFT, TIERS_MASK } from './holder-sets.ts';
import type { MemoryUse } from './memory-bound.ts';
import { PagedWords } from './paged-words.ts';
import type { PairSet } from './pair-set.ts';
import { Tenures } from './tenures.ts';

type FiveWords = [PagedWords, PagedWords, PagedWords, PagedWords, PagedWords];

/** More than any tier's number: not held. */
export const NOT_HELD = 4;

/**
 * Blocks, their holders and their names, kept in step. What a tenure holds is closed towards the start of its prompts: a
 * block is held in a tier only while its parent is held in that tier or a faster one.
 */
export class Holdings {
  /** By kind of entry; at the end, what no entry of the table stands for. */
  readonly words: readonly PagedWords[];
  readonly table: HashTable;
  readonly blocks: BlockRecords;
  readonly names: EngineNames;
  readonly tenures = new Tenures();
  readonly sets: HolderSets;
  readonly #use: MemoryUse = { bytes: 0 };
  readonly #below: number[] = [];

  /** @param setGranulesMax room for sets of holders, 16 bytes each */
  constructor(setGranulesMax: number) {
    const [blocks, shared, own, sets, locals] = [0, 1, 2, 3, 4].map(() => new PagedWords(this.#use)) as FiveWords;
    this.words = [blocks, shared, own, sets, locals];
    this.table = new HashTable([blocks, shared, own, sets], this.#use);
    this.blocks = new BlockRecords(blocks, locals, this.table);
    this.names = new EngineNames(shared, own, this.table);
    this.sets = new HolderSets(sets, this.table, setGranulesMax);
  }

  /** Tiers of the tenure, by the way in which the block was named. */
  tiersOf(block: number, tenure: number): number {
    return this.sets.tiersOf(this.blocks.holders(block), tenure);
  }

  /** The block that the tenure's engine calls so, held in `level` or a faster one; -1 when there is none. */
  findHeld(tenure: number, low: number, high: number, level: number): number {
    let block = 0;
    if (this.tenures.isNamed[tenure] === 0) {
      const last = this.tenures.last[tenure] as number;
      block = this.blocks.hasHash(last, low, high) ? last : this.table.findBlock(low, high);
    } else {
      const entry = this.find(tenure, low, high);
      if (entry !== 0) block = this.blockOf(entry);
    }
    return block !== 0 && fastest(this.tiersOf(block, tenure)) <= level ? block : -1;
  }

  /** The entry of the table under which `tenure` holds a block by this name of its engine; 0 when it does not. */
  find(tenure: number, low: number, high: number): number {
    if (this.tenures.isNamed[tenure] === 0) {
      const block = this.table.findBlock(low, high);
      return block !== 0 && this.tiersOf(block, tenure) !== 0 ? block : 0;
    }
    this.table.seek(low, high);
    for (let entry = this.table.next(); entry !== 0; entry = this.table.next()) {
      if (this.#levelsBy(entry, tenure) !== 0) return entry;
    }
    return 0;
  }

  /** The block that an entry names. */
  blockOf(entry: number): number {
    return kindOf(entry) === PRIVATE_NAME ? this.names.blockOf(numberOf(entry)) : numberOf(entry);
  }

  /** Levels in which the tenure holds the entry's block by the entry's name. */
  #levelsBy(entry: number, tenure: number): number {
    const number = numberOf(entry);
    switch (kindOf(entry)) {
      case BLOCK:
        return this.tiersOf(number, tenure) & LEVEL_MASK;
      case PRIVATE_NAME:
        return this.names.tenureOf(number) === tenure ? this.names.levelsOf(number) : 0;
      case SHARED_NAME:
        return (this.tiersOf(number, tenure) >>> BY_SHARED_NAME) & LEVEL_MASK;
      default:
        return 0;
    }
  }

  /** What `tenure` holds of the block changes from `before` to `after`. */
  change(block: number, tenure: number, before: number, after: number): void {
    if (before === after) return;
    const holders = this.blocks.holders(block);
    this.blocks.setHolders(block, this.sets.replace(holders, tenure, after) | (holders & RECENT));
    const { blocks } = this.tenures;
    if (before === 0) blocks[tenure] = (blocks[tenure] as number) + 1;
    else if (after === 0) blocks[tenure] = (blocks[tenure] as number) - 1;
  }

  /**
   * The tenure loses a block named as we name it that nobody else holds, nor this one in levels other than those of `lost`,
   * and on which nothing hangs: most of what engines give up, as they do so from the ends of chains.
   * @returns false when it is anything else; nothing was changed then
   */
  dropLeaf(tenure: number, low: number, high: number, lost: number): boolean {
    if (this.tenures.isNamed[tenure] !== 0) return false;
    const block = this.table.findBlock(low, high);
    if (block === 0 || !this.blocks.isLeafOf(block, ALONE | (tenure << TENURE_SHIFT) | lost)) return false;
    const { blocks } = this.tenures;
    blocks[tenure] = (blocks[tenure] as number) - 1;
    this.giveBack(this.blocks.remove(block));
    return true;
  }

  /**
   * The tenure loses the block in the levels of `lost`, as far as it holds it by the entry's name; with it goes what that
   * cuts off, whose names are put in `cut`.
   * @returns whether it held anything of it
   */
  drop(tenure: number, entry: number, lost: number, cut: PairSet): boolean {
    const held = this.#levelsBy(entry, tenure);
    if ((held & lost) === 0) return false;
    const block = this.blockOf(entry);
    const before = this.tiersOf(block, tenure);
    let after = before;
    switch (kindOf(entry)) {
      case BLOCK:
        after &= ~lost;
        break;
      case PRIVATE_NAME:
        this.names.keepLevels(numberOf(entry), ~lost);
        after &= ~(LEVEL_MASK << BY_PRIVATE_NAME);
        after |= this.names.privateLevels(block, tenure) << BY_PRIVATE_NAME;
        break;
      default:
        after &= ~(lost << BY_SHARED_NAME);
        if ((held & ~lost) === 0) this.names.releaseShared(block);
    }
    this.change(block, tenure, before, after);
    if (this.blocks.child(block) !== 0 && fastest(after) > fastest(before)) {
      this.#dropBelow(block, tenure, fastest(after), cut);
    }
    this.giveBack(block);
    return true;
  }

  /** The tenure loses what lies below the block in tiers faster than `level`. */
  #dropBelow(block: number, tenure: number, level: number, cut: PairSet): void {
    const kept = (LEVEL_MASK << level) & LEVEL_MASK;
    const below = this.#below;
    below.push(block);
    for (let at = 0; at < below.length; at++) {
      for (let child = this.blocks.child(below[at] as number); child !== 0; child = this.blocks.next(child)) {
        const before = this.tiersOf(child, tenure);
        // What lies below an unchanged block is in no faster tier than that.
        if (fastest(before) >= level) continue;
        this.#noteNames(child, tenure, before, LEVEL_MASK & ~kept, cut);
        this.change(child, tenure, before, this.keep(child, tenure, before, kept));
        below.push(child);
      }
    }
    for (let at = below.length - 1; at > 0; at--)
      if (this.#isBare(below[at] as number)) this.blocks.remove(below[at] as number);
    below.length = 0;
  }

  #noteNames(block: number, tenure: number, tiers: number, lost: number, cut: PairSet): void {
    if ((tiers & lost) !== 0) cut.add(this.blocks.low(block), this.blocks.high(block));
    if (((tiers >>> BY_SHARED_NAME) & lost) !== 0) cut.add(this.names.sharedLow(block), this.names.sharedHigh(block));
    if (tiers >>> BY_PRIVATE_NAME === 0) return;
    for (let name = this.names.firstPrivate(block); name !== 0; name = this.names.nextPrivate(name)) {
      if (this.names.tenureOf(name) !== tenure || (this.names.levelsOf(name) & lost) === 0) continue;
      cut.add(this.names.low(name), this.names.high(name));
    }
  }

  /** Frees the names of a holding that keeps only the levels in `kept`. @returns the tiers left */
  keep(block: number, tenure: number, tiers: number, kept: number): number {
    if (tiers <= LEVEL_MASK) return tiers & kept;
    const shared = (tiers >>> BY_SHARED_NAME) & LEVEL_MASK;
    if (shared !== 0 && (shared & kept) === 0) this.names.releaseShared(block);
    const own = tiers >>> BY_PRIVATE_NAME === 0 ? 0 : this.names.keepPrivate(block, tenure, kept);
    return (tiers & kept) | ((shared & kept) << BY_SHARED_NAME) | (own << BY_PRIVATE_NAME);
  }

  /** Frees the block if nobody holds it and nothing hangs on it, and then what that leaves bare above it. */
  giveBack(block: number): void {
    let at = block;
    while (at !== ROOT && this.#isBare(at)) at = this.blocks.remove(at);
  }

  /** One step of `giveBack`. @returns what is bare after it; `ROOT` when nothing is */
  giveBackOne(block: number): number {
    if (this.blocks.isFree(block) || !this.#isBare(block)) return ROOT;
    const parent = this.blocks.remove(block);
    return parent !== ROOT && this.#isBare(parent) ? parent : ROOT;
  }

  #isBare(block: number): boolean {
    return (this.blocks.holders(block) & ~RECENT) === 0 && this.blocks.child(block) === 0;
  }

  /** Everybody loses the block; it has no children. @returns its parent if that has no children left, else 0 */
  evict(block: number): number {
    const holders = this.blocks.holders(block);
    if ((holders & ALONE) !== 0) this.#lose(block, (holders & HOLDER_MASK) >>> TENURE_SHIFT, holders & TIERS_MASK);
    else if ((holders & HOLDER_MASK) !== 0) {
      const page = this.sets.pageOf(holders);
      const from = this.sets.membersAt(holders);
      const to = from + this.sets.countOf(holders);
      for (let at = from; at < to; at++) {
        this.#lose(block, (page[at] as number) >>> TENURE_SHIFT, (page[at] as number) & TIERS_MASK);
      }
      this.sets.release(holders);
    }
    return this.blocks.remove(block);
  }

  #lose(block: number, tenure: number, tiers: number): void {
    this.keep(block, tenure, tiers, 0);
    const { blocks } = this.tenures;
    blocks[tenure] = (blocks[tenure] as number) - 1;
  }

  /** Takes tenures that ended off the block, which may leave it bare. @returns how many holders were looked at */
  sweep(block: number): number {
    const holders = this.blocks.holders(block);
    const { ranks } = this.tenures;
    if ((holders & ALONE) !== 0) {
      const tenure = (holders & HOLDER_MASK) >>> TENURE_SHIFT;
      if ((ranks[tenure] as number) >= 0) return 1;
      this.keep(block, tenure, holders & TIERS_MASK, 0);
      this.blocks.setHolders(block, holders & RECENT);
      return 1;
    }
    const count = this.sets.countOf(holders);
    if (count === 0) return 1;
    const page = this.sets.pageOf(holders);
    const from = this.sets.membersAt(holders);
    let isStale = false;
    for (let at = from; at < from + count; at++) {
      const tenure = (page[at] as number) >>> TENURE_SHIFT;
      if ((ranks[tenure] as number) >= 0) continue;
      this.keep(block, tenure, (page[at] as number) & TIERS_MASK, 0);
      isStale = true;
    }
    if (isStale) this.blocks.setHolders(block, this.sets.living(holders, ranks) | (holders & RECENT));
    return count;
  }

  /** Finds its way again after the words were replaced by those of a snapshot, in slices. */
  *restore(blocksTop: number, namesTop: number, setsTop: number): Generator<void, void> {
    this.blocks.restore(blocksTop); // what is left of them
    yield* this.names.restore(blocksTop, namesTop);
    yield* this.sets.restore(setsTop);
    yield* this.table.fill();
  }

  /** Memory taken for records and their table; what is not written yet takes none of the machine's. */
  get bytes(): number {
    return this.#use.bytes;
  }
}

/** One bit a level, however the block is named. */
export function levelsOf(tiers: number): number {
  return (tiers | (tiers >>> BY_SHARED_NAME) | (tiers >>> BY_PRIVATE_NAME)) & LEVEL_MASK;
}

/** The fastest level among `tiers`; `NOT_HELD` when there is none. */
export function fastest(tiers: number): number {
  const levels = levelsOf(tiers);
  return levels === 0 ? NOT_HELD : 31 - Math.clz32(levels & -levels);
}

export function hasLevel(tiers: number, level: number): boolean {
  return (levelsOf(tiers) & (1 << level)) !== 0;
}
