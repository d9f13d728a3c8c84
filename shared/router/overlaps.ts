/**
 * How many leading blocks of one prompt each rank holds. Addressed by rank number (`RankTable`), reused from query to query:
 * `clear` costs as much as the ranks that were touched. Blocks, not tokens.
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
