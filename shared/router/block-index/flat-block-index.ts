import type { BlockHashes } from '../../tokens/index.ts';
import type { Overlaps } from '../scheduler/prefix-index.ts';
import type { RankTable } from '../scheduler/ranks.ts';
import { BLOCKS_PER_PAGE, ROOT } from './block-records.ts';
import { matchChain, Path } from './chains.ts';
import { dumpRank } from './dump.ts';
import { ClockEviction, Gc } from './gc.ts';
import { U64Set } from './hash-table.ts';
import {
  ALONE,
  HOLDER_MASK,
  HOLDERS_MAX,
  hasTier,
  INCARNATION_SHIFT,
  RECENT,
  TIER_BITS,
  TIERS_MASK,
  tiersByAnyHash,
} from './holder-sets.ts';
import { BlockAllowance } from './memory.ts';
import { Residency } from './residency.ts';
import { writeSnapshot } from './snapshot.ts';
import type { BlockIndex, DumpSlice, HashPair, IndexCounters, IndexStatus, StorageTier } from './types.ts';

/** Blocks that an event looks at for the sweep, for each block of its own and for itself. */
const SWEPT_PER_BLOCK = 2;
const SWEPT_PER_EVENT = 8;

/** Blocks that give way to an event at most, beyond those that it adds: less than 1 ms. */
const EVICTED_AHEAD = 1024;

const LOOKS_MAX = 512;

export interface FlatIndexOptions {
  readonly ranks: RankTable;
  readonly blocksMax: number;
  readonly bytesMax: () => number;
  readonly onEvicted: (blocks: number) => void;
  /** As in `BlockIndexOptions`. */
  readonly looksMax?: number;
}

/** The index in typed arrays; see `Residency`. */
export class FlatBlockIndex implements BlockIndex {
  readonly residency: Residency;
  readonly #ranks: RankTable;
  readonly #blocksMax: number;
  readonly #allowance: BlockAllowance;
  readonly #onEvicted: (blocks: number) => void;
  readonly #gc: Gc;
  readonly #eviction: ClockEviction;
  readonly #path = new Path();
  readonly #seen = new U64Set();
  readonly #counters = { duplicateBlocks: 0, evictedBlocks: 0 };

  constructor(options: FlatIndexOptions) {
    this.#ranks = options.ranks;
    this.#blocksMax = options.blocksMax;
    this.#allowance = new BlockAllowance(options.blocksMax, options.bytesMax);
    this.#onEvicted = options.onEvicted;
    this.residency = new Residency(4 * options.blocksMax + (1 << 16), options.looksMax ?? LOOKS_MAX);
    this.#gc = new Gc(this.residency);
    this.#eviction = new ClockEviction(this.residency);
  }

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
    const tierNumber = numberOf(tier);
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
    const isOurs = this.#isOurs(blockHashes);
    if (!isOurs || residency.incarnations.hasOwnHashes[incarnation] === 1) {
      residency.incarnations.hasOwnHashes[incarnation] = 1;
      if (!this.#makeWay(incarnation, parent, parentBlock, blockHashes)) return 'invalid_block';
      if (!residency.cuts.isEmpty) this.#path.locate(residency, count); // of what was cut off, some may be gone
    }
    const evicted = this.#counters.evictedBlocks;
    const isStored = this.#store(incarnation, tierNumber, parentBlock, isOurs ? undefined : blockHashes, tokensHashes);
    if (isStored) residency.incarnations.last[incarnation] = this.#path.blocks[count - 1] as number;
    else residency.giveBack(this.#path.last(parentBlock));
    if (this.#counters.evictedBlocks > evicted) this.#onEvicted(this.#counters.evictedBlocks - evicted);
    return isStored ? 'ok' : 'capacity_exhausted';
  }

  /** Whether the engine hashes the blocks of the path as we do. */
  #isOurs(blockHashes: Uint32Array): boolean {
    const { sequence } = this.#path;
    for (let at = 0; at < blockHashes.length; at++) {
      if (((blockHashes[at] as number) | 0) !== sequence[at]) return false;
    }
    return true;
  }

  /**
   * Engine hashes that stand for other blocks so far are given up: what the engine said last counts.
   * @returns false when a block would be its own ancestor; nothing was changed then
   */
  #makeWay(incarnation: number, parent: HashPair | undefined, parentBlock: number, blockHashes: Uint32Array): boolean {
    const { residency } = this;
    const seen = this.#seen;
    seen.clear();
    if (parent !== undefined) seen.add(parent[0] | 0, parent[1] | 0);
    const count = blockHashes.length >> 1;
    let renamed = 0;
    for (let at = 0; at < count; at++) {
      const low = (blockHashes[2 * at] as number) | 0;
      const high = (blockHashes[2 * at + 1] as number) | 0;
      if (!seen.add(low, high)) return false;
      const entry = residency.find(incarnation, low, high);
      if (entry === 0 || residency.blockOf(entry) === this.#path.blocks[at]) continue;
      if (this.#path.leadsThrough(residency, residency.blockOf(entry), parentBlock, at)) return false;
      renamed++;
    }
    if (renamed === 0) return true;
    for (let at = 0; at < count; at++) {
      const entry = residency.find(
        incarnation,
        (blockHashes[2 * at] as number) | 0,
        (blockHashes[2 * at + 1] as number) | 0,
      );
      if (entry === 0 || residency.blockOf(entry) === this.#path.blocks[at]) continue;
      residency.drop(incarnation, entry, TIER_BITS);
      this.#path.locate(residency, count);
    }
    return true;
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
    for (let left = blocks + EVICTED_AHEAD; left > 0 && records.count + blocks > blocksMax; ) {
      const freed = this.#eviction.evict(pinned);
      if (freed === 0) return false;
      this.#counters.evictedBlocks += freed;
      left -= freed;
    }
    return true;
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
      else if (hasTier(before, tier)) this.#counters.duplicateBlocks++;
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
      if (hasTier(before, tier)) this.#counters.duplicateBlocks++;
      this.residency.change(block, incarnation, before, before | bit);
      if (at < 2 * known) records.setHolders(block, records.holders(block) | RECENT);
    }
    return true;
  }

  removed(rank: number, tier: StorageTier, blockHashes: Uint32Array): IndexStatus {
    const { residency } = this;
    const incarnation = residency.incarnations.find(rank);
    const lost = 1 << numberOf(tier);
    residency.beginEvent(blockHashes.length >> 1);
    if (!this.#gc.isIdle) this.#gc.sweep(blockHashes.length + SWEPT_PER_EVENT);
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

  cleared(rank: number): void {
    this.residency.end(rank);
  }

  removeRank(rank: number): void {
    this.cleared(rank);
    this.#ranks.recycle(rank);
  }

  match(hashes: BlockHashes, overlaps: Overlaps): void {
    overlaps.reset(this.#ranks.capacity);
    matchChain(this.residency, hashes.sequence, overlaps);
  }

  get blockCount(): number {
    return this.residency.blocks.count;
  }

  blocksOf(rank: number): number {
    const { incarnations } = this.residency;
    return incarnations.blocks[incarnations.find(rank)] ?? 0;
  }

  dump(rank: number): Generator<DumpSlice, void, void> {
    return dumpRank(this.residency, rank);
  }

  housekeep(blocksMax = 5000): boolean {
    if (this.#allowance.isOver(this.residency.bytes) && this.residency.blocks.top > BLOCKS_PER_PAGE) this.#gc.trim();
    const isMore = this.#gc.sweep(blocksMax);
    const trimmed = this.#gc.takeTrimmed();
    if (trimmed > 0) {
      this.#counters.evictedBlocks += trimmed;
      this.#onEvicted(trimmed);
    }
    return isMore;
  }

  snapshot(cursors: Uint8Array): Generator<Uint8Array, void, void> {
    return writeSnapshot(this.residency, this.#ranks, cursors);
  }

  get counters(): IndexCounters {
    return this.#counters;
  }

  get bytes(): number {
    return this.residency.bytes;
  }
}

/** Whether nobody but the incarnation holds, and that only in `tier`. */
function isHeldAlone(holders: number, incarnation: number, tier: number): boolean {
  if (holders >= 0 || (holders & HOLDER_MASK) >>> INCARNATION_SHIFT !== incarnation) return false;
  return tiersByAnyHash(holders & TIERS_MASK) === 1 << tier;
}

function numberOf(tier: StorageTier): number {
  switch (tier) {
    case 'device':
      return 0;
    case 'host_pinned':
      return 1;
    case 'disk':
      return 2;
    case 'external':
      return 3;
  }
}
