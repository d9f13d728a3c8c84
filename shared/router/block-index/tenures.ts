/** Tenures in use and waiting; 18 bits of a holding. */
const TENURES_MAX = (1 << 18) - 1;
const NOBODY = -1;

/**
 * The stays of ranks in the index. A tenure begins with the first block of a rank and ends when the rank is cleared; what
 * it held is then invisible at once, and its number is used again after a sweep has found it nowhere. Tenure 0 is nobody's.
 */
export class Tenures {
  /** -1 = ended or unused. */
  ranks = new Int32Array(64).fill(NOBODY);
  /** Blocks held. */
  blocks = new Int32Array(64);
  /** 1 = some of its blocks have another hash with the engine than with us. */
  isNamed = new Uint8Array(64);
  /** Number of the block that was stored last, which most often is the parent of the next; it may be gone. 0 = unknown. */
  last = new Int32Array(64);
  #ofRank = new Int32Array(64);
  #count = 1;
  #free: number[] = [];
  #ended: number[] = [];

  /** The tenure of the rank; 0 when it holds nothing. */
  find(rank: number): number {
    return this.#ofRank[rank] ?? 0;
  }

  /** The tenure of the rank, begun if need be; 0 when there are too many. */
  open(rank: number): number {
    const current = this.find(rank);
    if (current !== 0) return current;
    if (rank < 0 || rank > TENURES_MAX || (this.#free.length === 0 && this.#count > TENURES_MAX)) return 0;
    const tenure = this.#free.pop() ?? this.#count++;
    if (rank >= this.#ofRank.length) this.#ofRank = grown(this.#ofRank, rank + 1, 0);
    if (tenure >= this.ranks.length) {
      this.ranks = grown(this.ranks, tenure + 1, NOBODY);
      this.blocks = grown(this.blocks, tenure + 1, 0);
      this.last = grown(this.last, tenure + 1, 0);
      const isNamed = new Uint8Array(this.ranks.length);
      isNamed.set(this.isNamed);
      this.isNamed = isNamed;
    }
    this.ranks[tenure] = rank;
    this.#ofRank[rank] = tenure;
    return tenure;
  }

  /** Ends the rank's tenure. */
  end(rank: number): void {
    const tenure = this.find(rank);
    if (tenure === 0) return;
    this.#ofRank[rank] = 0;
    this.ranks[tenure] = NOBODY;
    this.isNamed[tenure] = 0;
    this.last[tenure] = 0;
    if (this.blocks[tenure] === 0) this.#free.push(tenure);
    else this.#ended.push(tenure);
  }

  /** Tenures that ended and may still be found in holdings. */
  get endedCount(): number {
    return this.#ended.length;
  }

  /** The first `count` tenures that ended are found nowhere any more. */
  recycle(count: number): void {
    for (const tenure of this.#ended.splice(0, count)) {
      this.blocks[tenure] = 0;
      this.#free.push(tenure);
    }
  }

  /** Largest number in use, plus one. */
  get count(): number {
    return this.#count;
  }

  /** Takes over the tenures of a snapshot, by number; -1 among `ranks` = ended or unused. */
  restore(ranks: Int32Array, blocks: Int32Array, isNamed: Uint8Array): void {
    this.#count = ranks.length;
    this.ranks = grown(ranks, ranks.length, NOBODY);
    this.blocks = grown(blocks, ranks.length, 0);
    this.isNamed = new Uint8Array(this.ranks.length);
    this.isNamed.set(isNamed);
    this.last = new Int32Array(this.ranks.length);
    for (let tenure = 1; tenure < ranks.length; tenure++) {
      const rank = ranks[tenure] as number;
      if (rank >= this.#ofRank.length) this.#ofRank = grown(this.#ofRank, rank + 1, 0);
      if (rank !== NOBODY) this.#ofRank[rank] = tenure;
      else if (blocks[tenure] === 0) this.#free.push(tenure);
      else this.#ended.push(tenure);
    }
  }
}

function grown(words: Int32Array, length: number, filler: number): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(Math.max(length, 2 * words.length)).fill(filler, words.length);
  larger.set(words);
  return larger;
}
