import { invariant } from '../errors/index.ts';
import { grown, roomy } from '../records/index.ts';

/** Incarnations in use and waiting; 18 bits of a holding. */
const INCARNATIONS_MAX = (1 << 18) - 1;
const NOBODY = -1;

/**
 * The stays of ranks in the index. An incarnation begins with the first block of a rank and ends when the rank is
 * cleared; what it held is then invisible at once, and its number is used again after a sweep has found it nowhere.
 * Incarnation 0 is nobody's.
 */
export class Incarnations {
  /** -1 = ended or unused. */
  ranks: Int32Array = new Int32Array(64).fill(NOBODY);
  /** Blocks held. */
  blocks: Int32Array = new Int32Array(64);
  /** 1 = some of its blocks have another hash with the engine than with us. */
  hasOwnHashes: Uint8Array = new Uint8Array(64);
  /**
   * Number of the block that was stored last, which most often is the parent of the next; it may be gone. 0 = unknown.
   */
  last: Int32Array = new Int32Array(64);
  #ofRank = new Int32Array(64);
  #count = 1;
  #free: number[] = [];
  #ended: number[] = [];

  /** The incarnation of the rank; 0 when it holds nothing. */
  find(rank: number): number {
    return this.#ofRank[rank] ?? 0;
  }

  /** The incarnation of the rank, begun if need be; 0 when there are too many. */
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
    this.ranks = grown(this.ranks).fill(NOBODY, before);
    this.blocks = grown(this.blocks);
    this.last = grown(this.last);
    this.hasOwnHashes = grown(this.hasOwnHashes);
  }

  /** The incarnation holds one block less. */
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
    this.ranks[incarnation] = NOBODY;
    this.hasOwnHashes[incarnation] = 0;
    this.last[incarnation] = 0;
    if (this.blocks[incarnation] === 0) this.#free.push(incarnation);
    else this.#ended.push(incarnation);
  }

  /** Incarnations that ended and may still stand among the holders of blocks. */
  get endedCount(): number {
    return this.#ended.length;
  }

  /** The first `count` incarnations that ended are found nowhere any more. */
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

  /** Takes over the incarnations of a snapshot, by number; -1 among `ranks` = ended or unused. */
  restore(ranks: Int32Array, blocks: Int32Array, hasOwnHashes: Uint8Array): void {
    this.#count = ranks.length;
    this.ranks = grown(ranks).fill(NOBODY, ranks.length);
    this.blocks = grown(blocks);
    this.hasOwnHashes = grown(hasOwnHashes);
    this.last = new Int32Array(this.ranks.length);
    for (let incarnation = 1; incarnation < ranks.length; incarnation++) {
      const rank = ranks[incarnation] as number;
      this.#ofRank = roomy(this.#ofRank, rank + 1);
      if (rank !== NOBODY) this.#ofRank[rank] = incarnation;
      else if (blocks[incarnation] === 0) this.#free.push(incarnation);
      else this.#ended.push(incarnation);
    }
  }
}
