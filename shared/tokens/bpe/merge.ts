import { grown } from '../../records/index.ts';
import { type BpeTables, findPair } from './tables.ts';

/**
 * Number of symbols above which a word is merged with a heap, because the plain search for the best pair is quadratic.
 */
const SCAN_SYMBOLS_MAX = 40;
const SYMBOLS_START = 256;
/** Size up to which scratch space is kept after a long word. */
const SYMBOLS_KEPT_MAX = 65_536;
const NO_RANK = 0x7fff_ffff;

/**
 * Merges the bytes of a word into tokens. Repeatedly merges the adjacent pair of the lowest rank, the leftmost among
 * equals. There is one instance per tokenizer; it reuses its scratch arrays.
 */
export class WordMerger {
  readonly #pairSlots: Int32Array;
  readonly #byteIds: Int32Array;
  /** Ids of the word's symbols; after `merge`, its tokens. */
  ids = new Int32Array(SYMBOLS_START);
  /** Slot of the pair (i, i + 1) in the pair table while scanning; links between symbols while the heap is used. */
  #slots = new Int32Array(SYMBOLS_START);
  #ranks = new Int32Array(SYMBOLS_START);

  constructor(tables: BpeTables) {
    this.#pairSlots = tables.pairSlots;
    this.#byteIds = tables.byteIds;
  }

  /** Merges and returns the number of tokens, which stay in `ids` until the next call. `length` must be above 0. */
  merge(bytes: Uint8Array, length: number): number {
    this.#reserve(length);
    for (let at = 0; at < length; at++) this.ids[at] = this.#byteIds[bytes[at]!]!;
    return length <= SCAN_SYMBOLS_MAX ? this.#mergeByScan(length) : this.#mergeByHeap(length);
  }

  /** Releases the scratch space that an unusually long word took. */
  trim(): void {
    if (this.ids.length > SYMBOLS_KEPT_MAX) this.#allocate(SYMBOLS_START);
  }

  #mergeByScan(symbols: number): number {
    const { ids } = this;
    const slots = this.#slots;
    const ranks = this.#ranks;
    let count = symbols;
    for (let at = 0; at + 1 < count; at++) this.#rankPair(at);
    for (;;) {
      let best = -1;
      let bestRank = NO_RANK;
      for (let at = 0; at + 1 < count; at++) {
        if (ranks[at]! >= bestRank) continue;
        bestRank = ranks[at]!;
        best = at;
      }
      if (best < 0) return count;
      ids[best] = this.#pairSlots[slots[best]! + 3]!;
      count--;
      for (let at = best + 1; at < count; at++) {
        ids[at] = ids[at + 1]!;
        slots[at] = slots[at + 1]!;
        ranks[at] = ranks[at + 1]!;
      }
      if (best + 1 < count) this.#rankPair(best);
      if (best > 0) this.#rankPair(best - 1);
    }
  }

  #rankPair(at: number): void {
    const slot = findPair(this.#pairSlots, this.ids[at]!, this.ids[at + 1]!);
    this.#slots[at] = slot;
    this.#ranks[at] = slot < 0 ? NO_RANK : this.#pairSlots[slot + 2]!;
  }

  /**
   * Merges with a heap of candidate pairs. Symbols form a doubly linked list (`#slots` = next, `#ranks` = previous).
   */
  #mergeByHeap(symbols: number): number {
    const { ids } = this;
    const next = this.#slots;
    const previous = this.#ranks;
    const pairSlots = this.#pairSlots;
    const heap = new PairHeap(symbols);
    for (let at = 0; at < symbols; at++) {
      next[at] = at + 1 < symbols ? at + 1 : -1;
      previous[at] = at - 1;
    }
    const offer = (left: number): void => {
      const right = next[left]!;
      if (right < 0) return;
      const slot = findPair(pairSlots, ids[left]!, ids[right]!);
      if (slot >= 0) heap.push(pairSlots[slot + 2]!, left);
    };
    for (let at = 0; at + 1 < symbols; at++) offer(at);
    while (heap.pop()) {
      const left = heap.position;
      const right = ids[left]! < 0 ? -1 : next[left]!;
      if (right < 0) continue; // merged away, or the last symbol by now
      const slot = findPair(pairSlots, ids[left]!, ids[right]!);
      if (slot < 0 || pairSlots[slot + 2] !== heap.rank) continue; // one side has changed since
      ids[left] = pairSlots[slot + 3]!;
      ids[right] = -1;
      const after = next[right]!;
      next[left] = after;
      if (after >= 0) previous[after] = left;
      offer(left);
      if (previous[left]! >= 0) offer(previous[left]!);
    }
    let count = 0;
    for (let at = 0; at >= 0; at = next[at]!) ids[count++] = ids[at]!;
    return count;
  }

  #reserve(symbols: number): void {
    if (symbols > this.ids.length) this.#allocate(2 ** Math.ceil(Math.log2(symbols)));
  }

  #allocate(symbols: number): void {
    this.ids = new Int32Array(symbols);
    this.#slots = new Int32Array(symbols);
    this.#ranks = new Int32Array(symbols);
  }
}

/** Binary heap of (rank, position), smallest first, on typed arrays. */
class PairHeap {
  #ranks: Int32Array;
  #positions: Int32Array;
  #size = 0;
  /** Rank of the entry popped last. */
  rank = 0;
  position = 0;

  constructor(capacity: number) {
    this.#ranks = new Int32Array(capacity);
    this.#positions = new Int32Array(capacity);
  }

  push(rank: number, position: number): void {
    if (this.#size === this.#ranks.length) {
      this.#ranks = grown(this.#ranks);
      this.#positions = grown(this.#positions);
    }
    const ranks = this.#ranks;
    const positions = this.#positions;
    let at = this.#size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (ranks[parent]! < rank || (ranks[parent] === rank && positions[parent]! <= position)) break;
      ranks[at] = ranks[parent]!;
      positions[at] = positions[parent]!;
      at = parent;
    }
    ranks[at] = rank;
    positions[at] = position;
  }

  /** Moves the smallest entry to `rank` and `position`; returns false when the heap is empty. */
  pop(): boolean {
    if (this.#size === 0) return false;
    const ranks = this.#ranks;
    const positions = this.#positions;
    this.rank = ranks[0]!;
    this.position = positions[0]!;
    const size = --this.#size;
    const rank = ranks[size]!;
    const position = positions[size]!;
    let at = 0;
    for (let child = 1; child < size; child = 2 * at + 1) {
      const sibling = child + 1;
      const isSiblingLess =
        sibling < size &&
        (ranks[sibling]! < ranks[child]! ||
          (ranks[sibling] === ranks[child] && positions[sibling]! < positions[child]!));
      if (isSiblingLess) child = sibling;
      if (rank < ranks[child]! || (rank === ranks[child] && position <= positions[child]!)) break;
      ranks[at] = ranks[child]!;
      positions[at] = positions[child]!;
      at = child;
    }
    ranks[at] = rank;
    positions[at] = position;
    return true;
  }
}
