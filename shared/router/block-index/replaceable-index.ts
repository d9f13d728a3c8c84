import type { BlockHashes } from '../../tokens/index.ts';
import type { Overlaps } from '../scheduler/prefix-index.ts';
import type { RankTable } from '../scheduler/ranks.ts';
import {
  type BlockIndexOptions,
  createBlockIndex,
  type LoadedBlockIndex,
  loadBlockIndexInSlices,
} from './create-block-index.ts';
import type { BlockIndex, HashPair, IndexStatus, StorageTier } from './types.ts';

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
