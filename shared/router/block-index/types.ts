import type { BlockHashes } from '../../tokens/index.ts';
import type { Overlaps } from '../scheduler/prefix-index.ts';

/** Where a block lies; `external` is scored with the weight of `disk`. */
export type StorageTier = 'device' | 'host_pinned' | 'disk' | 'external';

/** What came of an event; everything but `ok` is counted, never fatal. */
export type IndexStatus = 'ok' | 'parent_block_not_found' | 'block_not_found' | 'invalid_block' | 'capacity_exhausted';

/** A 64-bit hash as two u32 halves. */
export type HashPair = readonly [low: number, high: number];

/** A run of blocks as one `stored` event tells it. */
export interface StoredRun {
  readonly tier: StorageTier;
  /** The engine's hash of the block before the first one; undefined at the start of a prompt. */
  readonly parent: HashPair | undefined;
  readonly blockHashes: Uint32Array;
  readonly tokensHashes: Uint32Array;
}

/** A part of what a rank holds. */
export interface DumpSlice {
  readonly runs: readonly StoredRun[];
  /** Whether nothing follows. */
  readonly isLast: boolean;
}

/**
 * Which blocks each rank holds. Hashes are pairs of u32 halves, low half first. `blockHashes` are the engine's
 * own, in whatever way it makes them; `tokensHashes` are ours. Ranks are numbers of a
 * `RankTable`. Applying an event twice equals applying it once.
 *
 * What a rank holds always reaches back to the start of its prompts: a block is held in a tier only while the block before
 * it is held in that tier or a faster one. A removal that breaks this takes along what it cuts off.
 */
export interface BlockIndex {
  /** The parent must be held in `tier` or a faster one. */
  stored(
    rank: number,
    tier: StorageTier,
    parent: HashPair | undefined,
    blockHashes: Uint32Array,
    tokensHashes: Uint32Array,
  ): IndexStatus;
  /** All hashes are processed; the first failure is reported. */
  removed(rank: number, tier: StorageTier, blockHashes: Uint32Array): IndexStatus;
  /** The rank holds nothing any more. Its blocks are invisible at once and given back in slices. */
  cleared(rank: number): void;
  /** As `cleared`, and recycles the rank's number if its pair was dropped from the `RankTable`. */
  removeRank(rank: number): void;
  /** Resets `overlaps` and fills it with what each rank holds of the prompt, from its first block on. */
  match(hashes: BlockHashes, overlaps: Overlaps): void;
  /** Distinct blocks held by anybody, and those that wait for `housekeep`. */
  readonly blockCount: number;
  /** Distinct blocks that `rank` holds in any tier, and those that a removal has cut off and that wait for `housekeep`. */
  blocksOf(rank: number): number;
  /**
   * What `rank` holds, as events that build it up again in an empty index: tiers one after another, breadth first, runs
   * merged. Each step gives what it found in less than 1 ms, perhaps nothing: take one a turn. Events that come between
   * the steps may be in it or not; applied once more after all of it, they make it right.
   */
  dump(rank: number): Generator<DumpSlice, void, void>;
  /**
   * Gives back what cleared and removed ranks left behind, looking at no more than `blocksMax` blocks. Call it from a
   * timer; events do a share of it too, so it cannot fall behind.
   * @param blocksMax @default 5000, which takes less than 1 ms
   * @returns whether there is more to do
   */
  housekeep(blocksMax?: number): boolean;
  /**
   * The index as of the first chunk, in chunks to be written one after another; events may go on between the chunks.
   * `cursors` is kept beside it, as it is. Take a chunk a turn: each costs less than 1 ms. A snapshot begun later ends
   * this one; one that is left before its end is to be ended (`return`, which `for` does), as it keeps copies of what
   * changes meanwhile.
   */
  snapshot(cursors: Uint8Array): Generator<Uint8Array, void, void>;
  readonly counters: IndexCounters;
  /** Memory reserved for blocks, holders and names; what is not written yet takes none of the machine's. */
  readonly bytes: number;
}

/** Since the index was made. */
export interface IndexCounters {
  /** Blocks that were stored where they were held already. */
  readonly duplicateBlocks: number;
  /** Blocks given up because the index was full. */
  readonly evictedBlocks: number;
}
