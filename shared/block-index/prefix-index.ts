import type { BlockHashes } from '../tokens/index.ts';

/**
 * Number of leading blocks of one prompt that each rank holds. Arrays are by rank number (`RankTable`), and reused from
 * query to query: the cost of `reset` is proportional to the ranks that were touched. Blocks, not tokens.
 */
export class Overlaps {
  /** Ranks that hold at least one block in any tier, in no order; the first `count` entries are valid. */
  ranks: Uint32Array;
  count = 0;
  /** Blocks on the device, from the first on. By rank number. */
  device: Uint32Array;
  /** Blocks in host memory that continue where the device ends. By rank number. */
  host: Uint32Array;
  /** Blocks on disk or in an external store that continue where host memory ends. By rank number. */
  disk: Uint32Array;
  #isTouched: Uint8Array;

  /** @param capacity largest rank number plus one, see `RankTable.capacity` */
  constructor(capacity: number) {
    this.ranks = new Uint32Array(capacity);
    this.device = new Uint32Array(capacity);
    this.host = new Uint32Array(capacity);
    this.disk = new Uint32Array(capacity);
    this.#isTouched = new Uint8Array(capacity);
  }

  /** Forgets the last query, and makes room for rank numbers below `capacity`. */
  reset(capacity: number): void {
    if (capacity > this.ranks.length) {
      const room = Math.max(capacity, 2 * this.ranks.length);
      this.ranks = new Uint32Array(room);
      this.device = new Uint32Array(room);
      this.host = new Uint32Array(room);
      this.disk = new Uint32Array(room);
      this.#isTouched = new Uint8Array(room);
    } else {
      for (let at = 0; at < this.count; at++) {
        const rank = this.ranks[at] as number;
        this.device[rank] = 0;
        this.host[rank] = 0;
        this.disk[rank] = 0;
        this.#isTouched[rank] = 0;
      }
    }
    this.count = 0;
  }

  /** Adds `rank` to the list of ranks that hold something. Idempotent. */
  touch(rank: number): void {
    if (this.#isTouched[rank] === 1) return;
    this.#isTouched[rank] = 1;
    this.ranks[this.count++] = rank;
  }
}

/** A copy of `Overlaps` with only the ranks that hold something. */
export interface FoundOverlaps {
  readonly ranks: Uint32Array;
  /** Device, host and disk blocks of each of those ranks. */
  readonly blocks: Uint32Array;
}

/** Copy of empty overlaps, shared because most copies are empty. */
const NOTHING_FOUND: FoundOverlaps = { ranks: new Uint32Array(0), blocks: new Uint32Array(0) };

export function copyOverlaps({ ranks, count, device, host, disk }: Overlaps): FoundOverlaps {
  if (count === 0) return NOTHING_FOUND;
  const blocks = new Uint32Array(3 * count);
  for (let at = 0; at < count; at++) {
    const rank = ranks[at] as number;
    blocks[3 * at] = device[rank] as number;
    blocks[3 * at + 1] = host[rank] as number;
    blocks[3 * at + 2] = disk[rank] as number;
  }
  return { ranks: ranks.slice(0, count), blocks };
}

/** @param capacity as for `Overlaps.reset` */
export function restoreOverlaps({ ranks, blocks }: FoundOverlaps, overlaps: Overlaps, capacity: number): void {
  overlaps.reset(capacity);
  for (let at = 0; at < ranks.length; at++) {
    const rank = ranks[at] as number;
    overlaps.touch(rank);
    overlaps.device[rank] = blocks[3 * at] as number;
    overlaps.host[rank] = blocks[3 * at + 1] as number;
    overlaps.disk[rank] = blocks[3 * at + 2] as number;
  }
}

/**
 * The part of a block index that the scheduler of a pool uses; `BlockIndex` is one. Ranks are numbers of the pool's
 * `RankTable`.
 */
export interface PrefixIndex {
  /**
   * Fills `overlaps` with the blocks that each rank holds of the prompt. They must be empty, with room for every rank.
   */
  match(hashes: BlockHashes, overlaps: Overlaps): void;
  /**
   * Forgets the blocks of a rank that left the pool. Recycles its number in the `RankTable` once nothing refers to it.
   */
  removeRank(rank: number): void;
  /**
   * Sets the number of KV blocks that the rank has room for. Called for every rank of the pool whenever the pool
   * changes.
   */
  setCapacity?(rank: number, blocks: number | undefined): void;
  /**
   * Records that a request went to the rank. For indexes that predict.
   * @param cacheTtlMs time for which its client expects to reuse the prompt
   */
  decided?(requestId: string, rank: number, hashes: BlockHashes, cacheTtlMs?: number): void;
  /** Records that the request ended. */
  freed?(requestId: string): void;
  /** Returns the number of blocks that the rank holds in all, for the tie-break `fewest-blocks`. */
  blocksOf?(rank: number): number;
}
