import type { BlockHashes } from '../tokens/index.ts';

/**
 * How many leading blocks of one prompt each rank holds. Addressed by rank number (`RankTable`), reused from query to
 * query: `reset` costs as much as the ranks that were touched. Blocks, not tokens.
 */
export class Overlaps {
  /** Ranks that hold at least one block in any tier, in no order; the first `count` entries are valid. */
  ranks: Uint32Array;
  count = 0;
  /** Blocks on the device, from the first on. By rank number. */
  device: Uint32Array;
  /** Blocks in host memory that go on where the device ends. By rank number. */
  host: Uint32Array;
  /** Blocks on disk or in an external store that go on where host memory ends. By rank number. */
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

  /** Puts `rank` on the list of ranks that hold something. Idempotent. */
  touch(rank: number): void {
    if (this.#isTouched[rank] === 1) return;
    this.#isTouched[rank] = 1;
    this.ranks[this.count++] = rank;
  }
}

/** A copy of `Overlaps` that holds only the ranks with something. */
export interface FoundOverlaps {
  readonly ranks: Uint32Array;
  /** Device, host and disk blocks of each of them. */
  readonly blocks: Uint32Array;
}

/** Most copies are of nothing: of every waiting request, over and over. */
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
 * What the scheduler asks the block index of its pool; `BlockIndex` is one. Ranks are numbers of the pool's
 * `RankTable`.
 */
export interface PrefixIndex {
  /** Fills `overlaps`, which is empty and has room for every rank, with what each rank holds of the prompt. */
  match(hashes: BlockHashes, overlaps: Overlaps): void;
  /** The rank left the pool: forget its blocks, and `RankTable.recycle` its number once nothing refers to it. */
  removeRank(rank: number): void;
  /** KV blocks that the rank has room for; told for every rank of the pool whenever the pool changes. */
  setCapacity?(rank: number, blocks: number | undefined): void;
  /**
   * A request was sent there. For indexes that predict.
   * @param cacheTtlMs for how long its client expects the prompt to be of use
   */
  decided?(requestId: string, rank: number, hashes: BlockHashes, cacheTtlMs?: number): void;
  /** That request ended. */
  freed?(requestId: string): void;
  /** Blocks that the rank holds in all, for the tie-break `fewest-blocks`. */
  blocksOf?(rank: number): number;
}
