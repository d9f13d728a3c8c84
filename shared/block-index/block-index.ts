import type { BlockHashes } from '../tokens/index.ts';
import { BLOCKS_PER_PAGE, ROOT } from './block-records.ts';
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
import { matchChain, Path } from './match-overlaps.ts';
import { BlockAllowance } from './memory.ts';
import type { Overlaps } from './prefix-index.ts';
import type { RankTable } from './rank-table.ts';
import { Residency } from './residency.ts';
import { type LoadedBlockIndex, loadSnapshot, writeSnapshot } from './snapshot.ts';
import { type DumpSlice, type HashPair, type IndexStatus, type StorageTier, TIER_NUMBERS } from './types.ts';

/** Number of blocks that can have a number. */
const BLOCKS_MAX = (1 << 25) - 2;
/** Default number of blocks if memory has no bound. */
const BLOCKS_UNBOUNDED = 1 << 24;

export interface BlockIndexOptions {
  readonly ranks: RankTable;
  /**
   * Bound of the distinct blocks; those stored longest ago are evicted. At most 33,554,430. @default 16,777,216, or as
   * memory allows
   */
  readonly blocksMax?: number;
  /**
   * Returns the bound of the memory in bytes. The index calls it whenever it has grown, and evicts blocks as above.
   * @default none
   */
  readonly bytesMax?: () => number;
  /** Called with the number of evicted blocks. */
  readonly onEvicted?: (blocks: number) => void;
  /**
   * Bound of the blocks below a removed one that its event checks itself, in addition to a few for each hash. The rest
   * is done in slices. 0 = none. @default 512, which takes less than 0.1 ms
   */
  readonly looksMax?: number;
}

/**
 * The blocks that each rank holds, in typed arrays (see `Residency`). Hashes are pairs of u32 halves, low half first.
 * `blockHashes` are the engine's, computed in any way; `tokensHashes` are Stator's. Ranks are numbers of a `RankTable`.
 * Applying an event twice equals applying it once.
 *
 * The holdings of a rank always reach back to the start of its prompts. It holds a block in a tier only while it holds
 * the block before it in that tier or a faster one. If a removal breaks this, the blocks it cuts off go, too.
 */
export class BlockIndex {
  readonly ranks: RankTable;
  /** Current state of the index. `replaceBy` sets a new one. */
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

  /** Records stored blocks. The rank must hold the parent in `tier` or a faster one. */
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
      // Incarnation 0 holds nothing.
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
      if (!residency.cuts.isEmpty) this.#path.locate(residency, count); // some blocks that were cut off may be gone
    }
    const isStored = this.#store(incarnation, tierNumber, parentBlock, isOurs ? undefined : blockHashes, tokensHashes);
    if (isStored) residency.incarnations.last[incarnation] = this.#path.blocks[count - 1] as number;
    else residency.giveBack(this.#path.last(parentBlock));
    return isStored ? 'ok' : 'capacity_exhausted';
  }

  /**
   * Makes the incarnation a holder of the blocks of the path, the first of which follow `parent`.
   * @param blockHashes undefined if the engine hashes the blocks as Stator does
   * @returns false if there is no room for all
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
    // A chain that only this incarnation extends is one segment for `match`.
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

  /** Applies cuts to the path's blocks before the incarnation holds them again. */
  #enter(incarnation: number, parent: number): void {
    const { blocks, known } = this.#path;
    for (let at = 0, above = parent; at < known; at++) {
      const block = blocks[at] as number;
      this.residency.cuts.enter(above, block, incarnation);
      above = block;
    }
  }

  /** Evicts blocks if there is no room for `blocks` more. Many evictions are spread over several events. */
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

  /** Creates the blocks of the path that are not in the index, the first of them below `last`. @returns how many */
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

  /**
   * Makes the incarnation a holder of the path's blocks that were already in the index, hashed as Stator hashes them.
   */
  #hold(incarnation: number, tier: number): boolean {
    const { blocks, known } = this.#path;
    const { blocks: records, sets, incarnations } = this.residency;
    // Blocks of a chain often have the same holders, and then they also have the same holders after the change.
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

  /** Makes the incarnation a holder of the blocks of the path under these engine hashes. */
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

  /** Removes blocks from a rank. Processes all hashes and returns the first failure. */
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

  /** Removes all blocks of the rank. They are invisible at once and freed in slices. */
  cleared(rank: number): void {
    this.residency.end(rank);
  }

  /** Clears the rank, and recycles its number if its pair was dropped from the `RankTable`. */
  removeRank(rank: number): void {
    this.cleared(rank);
    this.ranks.recycle(rank);
  }

  /** Resets `overlaps` and fills it with the blocks that each rank holds of the prompt, from its first block on. */
  match(hashes: BlockHashes, overlaps: Overlaps): void {
    overlaps.reset(this.ranks.capacity);
    matchChain(this.residency, hashes.sequence, overlaps);
  }

  /** Number of distinct blocks that any rank holds, or that wait for `housekeep`. */
  get blockCount(): number {
    return this.residency.blocks.count;
  }

  /**
   * Number of distinct blocks that `rank` holds in any tier, with those that a removal has cut off and that wait for
   * `housekeep`.
   */
  blocksOf(rank: number): number {
    const { incarnations } = this.residency;
    return incarnations.blocks[incarnations.find(rank)] ?? 0;
  }

  /**
   * Yields the holdings of `rank` as events that rebuild them in an empty index: tier by tier, breadth first, with runs
   * merged. Each step takes less than 1 ms and may yield nothing; take one in each turn of the event loop. The result
   * may or may not contain events that come between the steps. Applied again after it, they make it right.
   */
  dump(rank: number): Generator<DumpSlice, void, void> {
    return dumpRank(this.residency, rank);
  }

  /**
   * Frees what cleared and removed ranks left behind, checking at most `blocksMax` blocks. Call it from a timer. Events
   * do a share of this work, too, so it cannot fall behind.
   * @param blocksMax @default 5000, which takes less than 1 ms
   * @returns whether more is left to do
   */
  housekeep(blocksMax = 5000): boolean {
    if (this.#allowance.isOver(this.residency.bytes) && this.residency.blocks.top > BLOCKS_PER_PAGE) this.#gc.trim();
    const isMore = this.#gc.sweep(blocksMax);
    const trimmed = this.#gc.takeTrimmed();
    if (trimmed > 0) this.#onEvicted(trimmed);
    return isMore;
  }

  /**
   * Yields the index as it is at the first chunk, in chunks to write one after another. Events may continue between the
   * chunks. Their lengths are multiples of 4. Take one chunk in each turn of the event loop: each costs less than 1 ms.
   * A later snapshot ends this one. A caller that stops early must end it (`return`, as `for` does), because it keeps
   * copies of what changes meanwhile.
   */
  snapshot(): Generator<Uint8Array, void, void> {
    return writeSnapshot(this.residency, this.ranks);
  }

  /**
   * Reads a snapshot in slices of less than 1 ms. It changes nothing, so that the index answers meanwhile; `replaceBy`
   * puts it in place. The result owns the bytes from then on.
   * @throws RangeError if the snapshot is cut off, its parts do not fit together, or it has another version
   */
  read(snapshot: Uint8Array): Generator<void, LoadedBlockIndex> {
    return loadSnapshot(snapshot, this.#emptyResidency());
  }

  /** Replaces all holdings by the result of `read`, or by nothing. Forgets ranks that the table does not know. */
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

  /** Number of stored blocks that the rank already held, since the index was made. */
  get duplicateBlocks(): number {
    return this.#duplicateBlocks;
  }

  /** Bytes reserved for blocks, holders and names. Pages that are not written yet take no memory of the machine. */
  get bytes(): number {
    return this.residency.bytes;
  }
}

/** Whether only this incarnation holds the block, and only in `tier`. */
function isHeldAlone(holders: number, incarnation: number, tier: number): boolean {
  if (holders >= 0 || (holders & HOLDER_MASK) >>> INCARNATION_SHIFT !== incarnation) return false;
  return tiersByAnyHash(holders & TIERS_MASK) === 1 << tier;
}
