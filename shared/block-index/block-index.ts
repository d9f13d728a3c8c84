import type { BlockHashes } from '../tokens/index.ts';
import { BLOCKS_PER_PAGE, ROOT } from './block-records.ts';
import { matchChain, Path } from './chains.ts';
import { dumpRank } from './dump.ts';
import { EVICTED_AHEAD, LOOKS_MAX, SWEPT_PER_BLOCK, SWEPT_PER_EVENT } from './event-work.ts';
import { ClockEviction, Gc } from './gc.ts';
import {
  ALONE,
  HOLDER_MASK,
  HOLDERS_MAX,
  hasTier,
  INCARNATION_SHIFT,
  RECENT,
  TIERS_MASK,
  tiersByAnyHash,
} from './holder-sets.ts';
import { BlockAllowance } from './memory.ts';
import type { Overlaps } from './prefix-index.ts';
import type { RankTable } from './rank-table.ts';
import { Residency } from './residency.ts';
import { type LoadedBlockIndex, loadSnapshot, writeSnapshot } from './snapshot.ts';
import { type DumpSlice, type HashPair, type IndexStatus, type StorageTier, TIER_NUMBERS } from './types.ts';

/** The most blocks that have a number. */
const BLOCKS_MAX = (1 << 25) - 2;
/** The default if memory has no bound. */
const BLOCKS_UNBOUNDED = 1 << 24;

export interface BlockIndexOptions {
  readonly ranks: RankTable;
  /**
   * Most distinct blocks; the blocks stored longest ago give way. At most 33,554,430. @default 16,777,216, or as memory
   * allows
   */
  readonly blocksMax?: number;
  /** Most memory, asked for whenever the index has grown; blocks give way as above. @default none */
  readonly bytesMax?: () => number;
  /** Told the number of blocks that gave way. */
  readonly onEvicted?: (blocks: number) => void;
  /**
   * Blocks below a removed one that its event looks at by itself, beside a few for each hash; what is beyond goes in
   * slices. 0 = none. @default 512, which takes less than 0.1 ms
   */
  readonly looksMax?: number;
}

/**
 * Which blocks each rank holds, in typed arrays (see `Residency`). Hashes are pairs of u32 halves, low half first.
 * `blockHashes` are the engine's own, in whatever way it makes them; `tokensHashes` are ours. Ranks are numbers of a
 * `RankTable`. Applying an event twice equals applying it once.
 *
 * What a rank holds always reaches back to the start of its prompts: a block is held in a tier only while the block
 * before it is held in that tier or a faster one. A removal that breaks this takes along what it cuts off.
 */
export class BlockIndex {
  readonly ranks: RankTable;
  /** Another one after `replaceBy`. */
  residency: Residency;
  readonly #blocksMax: number;
  readonly #bytesMax: () => number;
  readonly #looksMax: number;
  readonly #onEvicted: (blocks: number) => void;
  #allowance: BlockAllowance;
  #gc: Gc;
  #eviction: ClockEviction;
  readonly #path = new Path();
  #duplicateBlocks = 0;

  constructor({ ranks, blocksMax, bytesMax, onEvicted = () => {}, looksMax = LOOKS_MAX }: BlockIndexOptions) {
    this.ranks = ranks;
    this.#blocksMax = blocksMax ?? (bytesMax === undefined ? BLOCKS_UNBOUNDED : BLOCKS_MAX);
    this.#bytesMax = bytesMax ?? (() => Number.POSITIVE_INFINITY);
    this.#looksMax = looksMax;
    this.#onEvicted = onEvicted;
    this.residency = this.#emptyResidency();
    this.#allowance = new BlockAllowance(this.#blocksMax, this.#bytesMax);
    this.#gc = new Gc(this.residency);
    this.#eviction = new ClockEviction(this.residency);
  }

  #emptyResidency(): Residency {
    return new Residency(4 * this.#blocksMax + (1 << 16), this.#looksMax);
  }

  /** The parent must be held in `tier` or a faster one. */
  stored(
    rank: number,
    tier: StorageTier,
    parent: HashPair | undefined,
    blockHashes: Uint32Array,
    tokensHashes: Uint32Array,
  ): IndexStatus {
    const count = blockHashes.length >> 1;
    if (blockHashes.length !== tokensHashes.length || blockHashes.length !== 2 * count) return 'invalid_block';
    if (count === 0) return 'ok';
    const { residency } = this;
    if (count > this.#blocksMax || residency.sets.isNearlyFull || residency.engineHashes.isNearlyFull) {
      return 'capacity_exhausted';
    }
    residency.beginEvent(count);
    if (!this.#gc.isIdle) this.#gc.sweep(SWEPT_PER_BLOCK * count + SWEPT_PER_EVENT);
    const tierNumber = TIER_NUMBERS[tier];
    let parentBlock = ROOT;
    if (parent !== undefined) {
      // Nobody holds anything in incarnation 0.
      parentBlock = residency.findHeld(residency.incarnations.find(rank), parent[0] | 0, parent[1] | 0, tierNumber);
      if (parentBlock < 0) return 'parent_block_not_found';
    }
    const incarnation = residency.incarnations.open(rank);
    if (incarnation === 0) return 'capacity_exhausted';
    this.#path.chain(residency, parentBlock, tokensHashes);
    this.#path.locate(residency, count);
    const isOurs = this.#path.isNamedBy(blockHashes);
    if (!isOurs || residency.incarnations.hasOwnHashes[incarnation] === 1) {
      residency.incarnations.hasOwnHashes[incarnation] = 1;
      if (!this.#path.makeWay(residency, incarnation, parent, parentBlock, blockHashes)) return 'invalid_block';
      if (!residency.cuts.isEmpty) this.#path.locate(residency, count); // of what was cut off, some may be gone
    }
    const isStored = this.#store(incarnation, tierNumber, parentBlock, isOurs ? undefined : blockHashes, tokensHashes);
    if (isStored) residency.incarnations.last[incarnation] = this.#path.blocks[count - 1] as number;
    else residency.giveBack(this.#path.last(parentBlock));
    return isStored ? 'ok' : 'capacity_exhausted';
  }

  /**
   * The incarnation holds the blocks of the path, the first of which follow `parent`.
   * @param blockHashes undefined when the engine hashes the blocks as we do
   * @returns false when there is no room for all
   */
  #store(
    incarnation: number,
    tier: number,
    parent: number,
    blockHashes: Uint32Array | undefined,
    tokensHashes: Uint32Array,
  ): boolean {
    const { blocks, known } = this.#path;
    const count = tokensHashes.length >> 1;
    const last = this.#path.last(parent);
    if (!this.#makeRoom(count - known, last)) return false;
    if (this.residency.cuts.has(incarnation)) this.#enter(incarnation, parent);
    // A chain that one incarnation alone goes on with is one stretch for `match`.
    const isSame = isHeldAlone(this.residency.blocks.holders(last), incarnation, tier);
    if (blockHashes !== undefined) {
      const appended = this.#append(incarnation, last, tokensHashes, 0, isSame);
      if (appended === count - known && this.#holdByEngineHash(incarnation, tier, blockHashes)) return true;
      if (appended > 0) this.residency.giveBack(blocks[known + appended - 1] as number);
      return false;
    }
    const { incarnations } = this.residency;
    const holders = ALONE | (incarnation << INCARNATION_SHIFT) | (1 << tier);
    const appended = this.#append(incarnation, last, tokensHashes, holders, isSame);
    incarnations.blocks[incarnation] = (incarnations.blocks[incarnation] as number) + appended;
    return this.#hold(incarnation, tier) && appended === count - known;
  }

  /** What was cut off of the path's blocks is put right before the incarnation holds them again. */
  #enter(incarnation: number, parent: number): void {
    const { blocks, known } = this.#path;
    for (let at = 0, above = parent; at < known; at++) {
      const block = blocks[at] as number;
      this.residency.cuts.enter(above, block, incarnation);
      above = block;
    }
  }

  /** When many are to go, they do so in the course of some events. */
  #makeRoom(blocks: number, pinned: number): boolean {
    const { blocks: records, bytes } = this.residency;
    const blocksMax = this.#allowance.blocksMax(records.count, bytes);
    let evicted = 0;
    let freed = 1;
    while (freed > 0 && evicted < blocks + EVICTED_AHEAD && records.count + blocks > blocksMax) {
      freed = this.#eviction.evict(pinned);
      evicted += freed;
    }
    if (evicted > 0) this.#onEvicted(evicted);
    return freed > 0;
  }

  /** Makes the blocks of the path that are not in the index, the first of them below `last`. @returns how many */
  #append(incarnation: number, last: number, tokensHashes: Uint32Array, holders: number, isSame: boolean): number {
    const { blocks, sequence, known } = this.#path;
    const { blocks: records, cuts } = this.residency;
    let above = last;
    for (let at = 2 * known; at < tokensHashes.length; at += 2) {
      above = records.create(
        above,
        sequence[at] as number,
        sequence[at + 1] as number,
        tokensHashes[at] as number,
        tokensHashes[at + 1] as number,
        holders,
        isSame || at > 2 * known,
      );
      if (above === 0) return (at >> 1) - known;
      blocks[at >> 1] = above;
      if (at === 2 * known && cuts.has(incarnation)) cuts.passOver(last, above, incarnation);
    }
    return (tokensHashes.length >> 1) - known;
  }

  /** The incarnation also holds the blocks that were in the index before, hashed as we hash them. */
  #hold(incarnation: number, tier: number): boolean {
    const { blocks, known } = this.#path;
    const { blocks: records, sets, incarnations } = this.residency;
    // Blocks of a chain often have the same holders, and then the same after the change.
    let from = -1;
    let to = 0;
    let before = 0;
    for (let at = 0; at < known; at++) {
      const block = blocks[at] as number;
      const holders = records.holders(block) & ~RECENT;
      if (at > 0 && holders === from) {
        sets.retain(to);
        sets.release(from);
      } else {
        before = sets.tiersOf(holders, incarnation);
        if (before === 0 && sets.countOf(holders) >= HOLDERS_MAX) return false;
        from = holders;
        to = sets.replace(holders, incarnation, before | (1 << tier));
      }
      if (before === 0) incarnations.blocks[incarnation] = (incarnations.blocks[incarnation] as number) + 1;
      else if (hasTier(before, tier)) this.#duplicateBlocks++;
      records.setHolders(block, to | RECENT);
    }
    return true;
  }

  /** The incarnation holds the blocks of the path under these engine hashes. */
  #holdByEngineHash(incarnation: number, tier: number, blockHashes: Uint32Array): boolean {
    const { blocks, sequence, known } = this.#path;
    const { blocks: records, engineHashes, sets } = this.residency;
    for (let at = 0; at < blockHashes.length; at += 2) {
      const block = blocks[at >> 1] as number;
      const low = (blockHashes[at] as number) | 0;
      const high = (blockHashes[at + 1] as number) | 0;
      const isOurs = low === sequence[at] && high === sequence[at + 1];
      const holders = records.holders(block);
      const before = sets.tiersOf(holders, incarnation);
      const hasRoom = before !== 0 || sets.countOf(holders) < HOLDERS_MAX;
      const bit = !hasRoom ? 0 : isOurs ? 1 << tier : engineHashes.bind(block, incarnation, before, low, high, tier);
      if (bit === 0) return false;
      if (hasTier(before, tier)) this.#duplicateBlocks++;
      this.residency.change(block, incarnation, before, before | bit);
      if (at < 2 * known) records.setHolders(block, records.holders(block) | RECENT);
    }
    return true;
  }

  /** All hashes are processed; the first failure is reported. */
  removed(rank: number, tier: StorageTier, blockHashes: Uint32Array): IndexStatus {
    const { residency } = this;
    const incarnation = residency.incarnations.find(rank);
    const lost = 1 << TIER_NUMBERS[tier];
    residency.beginEvent(blockHashes.length >> 1);
    if (!this.#gc.isIdle) this.#gc.sweep(SWEPT_PER_BLOCK * (blockHashes.length >> 1) + SWEPT_PER_EVENT);
    residency.table.warm(blockHashes, 0, blockHashes.length >> 1);
    let status: IndexStatus = 'ok';
    for (let at = 0; at + 1 < blockHashes.length; at += 2) {
      const low = (blockHashes[at] as number) | 0;
      const high = (blockHashes[at + 1] as number) | 0;
      if (incarnation !== 0) {
        if (residency.dropLeaf(incarnation, low, high, lost)) continue;
        const entry = residency.find(incarnation, low, high);
        if (entry !== 0 && residency.drop(incarnation, entry, lost)) continue;
      }
      if (!residency.cuts.lost.has(low, high)) status = 'block_not_found';
    }
    return status;
  }

  /** The rank holds nothing any more. Its blocks are invisible at once and given back in slices. */
  cleared(rank: number): void {
    this.residency.end(rank);
  }

  /** As `cleared`, and recycles the rank's number if its pair was dropped from the `RankTable`. */
  removeRank(rank: number): void {
    this.cleared(rank);
    this.ranks.recycle(rank);
  }

  /** Resets `overlaps` and fills it with what each rank holds of the prompt, from its first block on. */
  match(hashes: BlockHashes, overlaps: Overlaps): void {
    overlaps.reset(this.ranks.capacity);
    matchChain(this.residency, hashes.sequence, overlaps);
  }

  /** Distinct blocks held by anybody, and those that wait for `housekeep`. */
  get blockCount(): number {
    return this.residency.blocks.count;
  }

  /**
   * Distinct blocks that `rank` holds in any tier, and those that a removal has cut off and that wait for `housekeep`.
   */
  blocksOf(rank: number): number {
    const { incarnations } = this.residency;
    return incarnations.blocks[incarnations.find(rank)] ?? 0;
  }

  /**
   * What `rank` holds, as events that build it up again in an empty index: tiers one after another, breadth first, runs
   * merged. Each step gives what it found in less than 1 ms, perhaps nothing: take one a turn. Events that come between
   * the steps may be in it or not; applied once more after all of it, they make it right.
   */
  dump(rank: number): Generator<DumpSlice, void, void> {
    return dumpRank(this.residency, rank);
  }

  /**
   * Gives back what cleared and removed ranks left behind, looking at no more than `blocksMax` blocks. Call it from a
   * timer; events do a share of it too, so it cannot fall behind.
   * @param blocksMax @default 5000, which takes less than 1 ms
   * @returns whether there is more to do
   */
  housekeep(blocksMax = 5000): boolean {
    if (this.#allowance.isOver(this.residency.bytes) && this.residency.blocks.top > BLOCKS_PER_PAGE) this.#gc.trim();
    const isMore = this.#gc.sweep(blocksMax);
    const trimmed = this.#gc.takeTrimmed();
    if (trimmed > 0) this.#onEvicted(trimmed);
    return isMore;
  }

  /**
   * The index as of the first chunk, in chunks to be written one after another; events may go on between the chunks.
   * Their lengths are multiples of 4. Take a chunk a turn: each costs less than 1 ms. A snapshot begun later ends this
   * one; one that is left before its end is to be ended (`return`, which `for` does), as it keeps copies of what
   * changes meanwhile.
   */
  snapshot(): Generator<Uint8Array, void, void> {
    return writeSnapshot(this.residency, this.ranks);
  }

  /**
   * Reads a snapshot in slices of less than 1 ms, and changes nothing yet, so that the index answers meanwhile:
   * `replaceBy` puts it in place. The bytes belong to what was read from now on.
   * @throws RangeError when it is cut off, its parts do not fit together, or it is of another version
   */
  read(snapshot: Uint8Array): Generator<void, LoadedBlockIndex> {
    return loadSnapshot(snapshot, this.#emptyResidency());
  }

  /**
   * Puts what `read` gave, or nothing, in place of all that is held now. Ranks that the table does not know are
   * forgotten.
   */
  replaceBy(loaded?: LoadedBlockIndex): void {
    this.residency = loaded?.residency ?? this.#emptyResidency();
    this.#allowance = new BlockAllowance(this.#blocksMax, this.#bytesMax);
    this.#gc = new Gc(this.residency);
    this.#eviction = new ClockEviction(this.residency);
    for (const rank of loaded?.numberRanks(this.ranks) ?? []) {
      this.ranks.drop(rank);
      this.removeRank(rank);
    }
  }

  /** Blocks that were stored where they were held already, since the index was made. */
  get duplicateBlocks(): number {
    return this.#duplicateBlocks;
  }

  /** Memory reserved for blocks, holders and names; what is not written yet takes none of the machine's. */
  get bytes(): number {
    return this.residency.bytes;
  }
}

/** Whether nobody but the incarnation holds, and that only in `tier`. */
function isHeldAlone(holders: number, incarnation: number, tier: number): boolean {
  if (holders >= 0 || (holders & HOLDER_MASK) >>> INCARNATION_SHIFT !== incarnation) return false;
  return tiersByAnyHash(holders & TIERS_MASK) === 1 << tier;
}
