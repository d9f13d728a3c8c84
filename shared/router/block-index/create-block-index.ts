import type { BlockHashes } from '../../tokens/index.ts';
import type { Overlaps } from '../scheduler/prefix-index.ts';
import type { RankTable } from '../scheduler/ranks.ts';
import { FlatBlockIndex } from './flat-block-index.ts';
import { loadSnapshot } from './snapshot.ts';
import type { BlockIndex, HashPair, IndexStatus, StorageTier } from './types.ts';

const BLOCKS_MAX = (1 << 25) - 2;

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

/** An empty index. */
export function createBlockIndex(options: BlockIndexOptions): FlatBlockIndex {
  const { ranks, bytesMax = () => Number.POSITIVE_INFINITY, onEvicted = () => {} } = options;
  const { blocksMax = options.bytesMax === undefined ? 1 << 24 : BLOCKS_MAX } = options;
  const looks = options.looksMax === undefined ? {} : { looksMax: options.looksMax };
  return new FlatBlockIndex({ ranks, blocksMax, bytesMax, onEvicted, ...looks });
}

/** An index that was loaded and is to be put in place. */
export interface LoadedBlockIndex {
  /** What was kept beside the index when the snapshot was taken. */
  readonly cursors: Uint8Array;
  /**
   * Numbers its ranks, which is to be done in the turn in which the index is put in place: `options.ranks` says who
   * they are at that moment.
   * @param keepsUnknownRanks whether ranks that the table does not know get a number, or are forgotten. @default true
   */
  settle(keepsUnknownRanks?: boolean): BlockIndex;
}

/**
 * The index that a snapshot was taken of, loaded in slices of less than 1 ms, so that another one may answer meanwhile.
 * The bytes belong to the index from now on.
 * @throws SnapshotError when the snapshot is cut off, damaged, or of another version
 */
export function* loadBlockIndexInSlices(
  snapshot: Uint8Array,
  options: BlockIndexOptions,
): Generator<void, LoadedBlockIndex> {
  const { ranks } = options;
  const index = createBlockIndex(options);
  const loaded = yield* loadSnapshot(snapshot, index.residency);
  return {
    cursors: loaded.cursors,
    settle(keepsUnknownRanks = true) {
      const unknownRanks = loaded.numberRanks(ranks);
      for (const rank of keepsUnknownRanks ? [] : unknownRanks) {
        ranks.drop(rank);
        index.removeRank(rank);
      }
      return index;
    },
  };
}

/**
 * The block index of a worker set that a snapshot can take the place of: those who ask and feed it keep what they hold.
 * While a snapshot is loaded, and when it turns out to be damaged, the index before still answers.
 */
export class ReplaceableBlockIndex {
  readonly #options: BlockIndexOptions;
  #current: BlockIndex;
  /** Of the indexes before: a counter never goes back. */
  #duplicatesBefore = 0;

  constructor(options: BlockIndexOptions) {
    this.#options = options;
    this.#current = createBlockIndex(options);
  }

  get ranks(): RankTable {
    return this.#options.ranks;
  }

  get blockCount(): number {
    return this.#current.blockCount;
  }

  get bytes(): number {
    return this.#current.bytes;
  }

  get duplicateBlocks(): number {
    return this.#duplicatesBefore + this.#current.counters.duplicateBlocks;
  }

  stored(
    rank: number,
    tier: StorageTier,
    parent: HashPair | undefined,
    blockHashes: Uint32Array,
    tokensHashes: Uint32Array,
  ): IndexStatus {
    return this.#current.stored(rank, tier, parent, blockHashes, tokensHashes);
  }

  removed(rank: number, tier: StorageTier, blockHashes: Uint32Array): IndexStatus {
    return this.#current.removed(rank, tier, blockHashes);
  }

  cleared(rank: number): void {
    this.#current.cleared(rank);
  }

  removeRank(rank: number): void {
    this.#current.removeRank(rank);
  }

  match(hashes: BlockHashes, overlaps: Overlaps): void {
    this.#current.match(hashes, overlaps);
  }

  blocksOf(rank: number): number {
    return this.#current.blocksOf(rank);
  }

  housekeep(): boolean {
    return this.#current.housekeep();
  }

  /** The index as of the first chunk, in chunks whose lengths are multiples of 4. */
  snapshot(): Iterable<Uint8Array> {
    return this.#current.snapshot(new Uint8Array(0));
  }

  /**
   * Reads a snapshot in slices of less than 1 ms, and changes nothing yet: `replaceBy` puts it in place. The bytes
   * belong to what was read from now on.
   * @throws SnapshotError when it is cut off, damaged, or of another version
   */
  read(snapshot: Uint8Array): Generator<void, LoadedBlockIndex> {
    return loadBlockIndexInSlices(snapshot, this.#options);
  }

  /** Puts what `read` gave, or an empty index, in place of the present one. */
  replaceBy(loaded?: LoadedBlockIndex): void {
    this.#duplicatesBefore += this.#current.counters.duplicateBlocks;
    // Unknown ranks are those of workers that left since the snapshot was taken.
    this.#current = loaded === undefined ? createBlockIndex(this.#options) : loaded.settle(false);
  }
}
