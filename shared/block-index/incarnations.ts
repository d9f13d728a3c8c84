import { invariant } from '../errors/index.ts';
import { grown, roomy } from '../records/index.ts';

/** Bound of the incarnations in use and waiting: a holding has 18 bits for them. */
const INCARNATIONS_MAX = (1 << 18) - 1;
const NO_RANK = -1;

/**
 * The stays of ranks in the index. An incarnation begins with the first block of a rank and ends when the rank is
 * cleared. Its holdings are then invisible at once. Its number is reused once a sweep has found it nowhere. Incarnation
 * 0 belongs to no rank.
 */
export class Incarnations {
  /** Rank of each incarnation; -1 = ended or unused. */
  ranks: Int32Array = new Int32Array(64).fill(NO_RANK);
  /** Number of blocks that each incarnation holds. */
  blocks: Int32Array = new Int32Array(64);
  /** Whether engine and Stator have different hashes for some of its blocks; 1 = yes. */
  hasOwnHashes: Uint8Array = new Uint8Array(64);
  /**
   * Number of the block that was stored last, which usually is the parent of the next one. The block may be gone. 0 =
   * unknown.
   */
  last: Int32Array = new Int32Array(64);
  #ofRank = new Int32Array(64);
  #count = 1;
  #free: number[] = [];
  #ended: number[] = [];

  /** Returns the incarnation of the rank; 0 if it holds nothing. */
  find(rank: number): number {
    return this.#ofRank[rank] ?? 0;
  }

  /** Returns the incarnation of the rank, and begins one if there is none; 0 if there are too many. */
  open(rank: number): number {
    const current = this.find(rank);
    if (current !== 0) return current;
    if (rank < 0 || rank > INCARNATIONS_MAX || (this.#free.length === 0 && this.#count > INCARNATIONS_MAX)) return 0;
    const incarnation = this.#free.pop() ?? this.#count++;
    this.#ofRank = roomy(this.#ofRank, rank + 1);
    if (incarnation >= this.ranks.length) this.#grow();
    this.ranks[incarnation] = rank;
    this.#ofRank[rank] = incarnation;
    return incarnation;
  }

  #grow(): void {
    const before = this.ranks.length;
    this.ranks = grown(this.ranks).fill(NO_RANK, before);
    this.blocks = grown(this.blocks);
    this.last = grown(this.last);
    this.hasOwnHashes = grown(this.hasOwnHashes);
  }

  /** Records that the incarnation holds one block less. */
  leaveBlock(incarnation: number): void {
    const left = (this.blocks[incarnation] as number) - 1;
    invariant(left >= 0, 'an incarnation loses no more blocks than it held');
    this.blocks[incarnation] = left;
  }

  /** Ends the rank's incarnation. */
  end(rank: number): void {
    const incarnation = this.find(rank);
    if (incarnation === 0) return;
    this.#ofRank[rank] = 0;
    this.ranks[incarnation] = NO_RANK;
    this.hasOwnHashes[incarnation] = 0;
    this.last[incarnation] = 0;
    if (this.blocks[incarnation] === 0) this.#free.push(incarnation);
    else this.#ended.push(incarnation);
  }

  /** Number of incarnations that ended and may still be among the holders of blocks. */
  get endedCount(): number {
    return this.#ended.length;
  }

  /** Makes the first `count` ended incarnations, which no block names any more, usable again. */
  recycle(count: number): void {
    for (const incarnation of this.#ended.splice(0, count)) {
      this.blocks[incarnation] = 0;
      this.#free.push(incarnation);
    }
  }

  /** Largest number in use, plus one. */
  get count(): number {
    return this.#count;
  }

  /** Restores the incarnations of a snapshot, by number; -1 among `ranks` = ended or unused. */
  restore(ranks: Int32Array, blocks: Int32Array, hasOwnHashes: Uint8Array): void {
    this.#count = ranks.length;
    this.ranks = grown(ranks).fill(NO_RANK, ranks.length);
    this.blocks = grown(blocks);
    this.hasOwnHashes = grown(hasOwnHashes);
    this.last = new Int32Array(this.ranks.length);
    for (let incarnation = 1; incarnation < ranks.length; incarnation++) {
      const rank = ranks[incarnation] as number;
      this.#ofRank = roomy(this.#ofRank, rank + 1);
      if (rank !== NO_RANK) this.#ofRank[rank] = incarnation;
      else if (blocks[incarnation] === 0) this.#free.push(incarnation);
      else this.#ended.push(incarnation);
    }
  }
}
