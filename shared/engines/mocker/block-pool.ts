import assert from 'node:assert';
import type { BlockNames } from './sequence.ts';

/** Receives every change of the set of cached blocks, in order. Hashes are u32 halves. */
export interface BlockListener {
  /** Takes block `index` of the sequence named by `names`; its parent is the block before it. */
  stored(names: BlockNames, index: number): void;
  removed(hashLow: number, hashHigh: number): void;
  /** Takes the removal of all blocks from lookup. */
  cleared?(): void;
}

/**
 * Change: consecutive blocks of one sequence stored, consecutive removals as pairs of u32 halves, or everything
 * cleared.
 */
export type BlockChange =
  | { readonly kind: 'stored'; readonly names: BlockNames; readonly start: number; end: number }
  | { readonly kind: 'removed'; readonly hashes: number[] }
  | { readonly kind: 'cleared' };

/** Collects the block changes of one pass. Bounded by the blocks one pass can touch. */
export class BlockJournal implements BlockListener {
  #changes: BlockChange[] = [];

  stored(names: BlockNames, index: number): void {
    const last = this.#changes.at(-1);
    if (last?.kind === 'stored' && last.names === names && last.end === index) last.end++;
    else this.#changes.push({ kind: 'stored', names, start: index, end: index + 1 });
  }

  removed(hashLow: number, hashHigh: number): void {
    const last = this.#changes.at(-1);
    if (last?.kind === 'removed') last.hashes.push(hashLow, hashHigh);
    else this.#changes.push({ kind: 'removed', hashes: [hashLow, hashHigh] });
  }

  cleared(): void {
    this.#changes.push({ kind: 'cleared' });
  }

  /** Returns the changes since the last call, in order. */
  drain(): readonly BlockChange[] {
    const changes = this.#changes;
    if (changes.length > 0) this.#changes = [];
    return changes;
  }
}

/**
 * Paged KV cache of one rank: numbered slots, each of which is in one of four places.
 *
 *     free (stack) --take--> private, still filling --seal--> shared by hash, in use (references >= 1)
 *        ^                        |                              | last unpin      ^ pin
 *        +----- last unpin -------+                              v                 |
 *        +------ evict least recently released <------- cached, unused (LRU list) -+
 *
 * Sealing a block whose hash is already cached drops the copy and joins the existing block. All state is in typed
 * arrays, so a pool of 16,384 blocks takes 0.7 MB and no operation allocates.
 */
export class BlockPool {
  readonly capacity: number;
  readonly #references: Int32Array;
  readonly #isShared: Uint8Array;
  readonly #low: Uint32Array;
  readonly #high: Uint32Array;
  readonly #newer: Int32Array; // LRU list; entry `capacity` is its head and tail
  readonly #older: Int32Array;
  readonly #free: Int32Array;
  #freeCount: number;
  #activeCount = 0;
  #cachedCount = 0;
  readonly #table: Int32Array; // open addressing: slot + 1, 0 = empty; at most half full
  readonly #mask: number;
  readonly #listener: BlockListener | undefined;

  constructor(capacity: number, listener?: BlockListener) {
    assert(Number.isInteger(capacity) && capacity > 0, 'a KV cache needs at least one block');
    this.capacity = capacity;
    this.#references = new Int32Array(capacity);
    this.#isShared = new Uint8Array(capacity);
    this.#low = new Uint32Array(capacity);
    this.#high = new Uint32Array(capacity);
    this.#newer = new Int32Array(capacity + 1).fill(capacity);
    this.#older = new Int32Array(capacity + 1).fill(capacity);
    this.#free = Int32Array.from({ length: capacity }, (_, index) => capacity - 1 - index);
    this.#freeCount = capacity;
    const size = 2 ** Math.ceil(Math.log2(capacity * 2));
    this.#table = new Int32Array(size);
    this.#mask = size - 1;
    this.#listener = listener;
  }

  /** Number of blocks that requests hold. */
  get active(): number {
    return this.#activeCount;
  }

  /** Number of blocks with content that no request uses. */
  get cached(): number {
    return this.#cachedCount;
  }

  /** Number of blocks that can be taken: free ones and cached ones. */
  get available(): number {
    return this.capacity - this.#activeCount;
  }

  isActive(slot: number): boolean {
    return this.#references[slot]! > 0;
  }

  /** Returns the slot of the shared block with this hash, or -1. */
  find(low: number, high: number): number {
    let at = low & this.#mask;
    for (let entry = this.#table[at]!; entry !== 0; entry = this.#table[at]!) {
      if (this.#low[entry - 1] === low && this.#high[entry - 1] === high) return entry - 1;
      at = (at + 1) & this.#mask;
    }
    return -1;
  }

  /** Adds a reference to a shared block. */
  pin(slot: number): void {
    if (this.#references[slot]!++ > 0) return;
    this.#unlink(slot);
    this.#cachedCount--;
    this.#activeCount++;
  }

  /** Returns a private block with one reference; evicts the least recently released cached block when none is free. */
  take(): number {
    assert(this.#activeCount < this.capacity, 'no block to take');
    if (this.#freeCount === 0) this.#evict();
    const slot = this.#free[--this.#freeCount]!;
    this.#references[slot] = 1;
    this.#activeCount++;
    return slot;
  }

  /**
   * Makes a full private block shared under name `index` of `names`. Returns the slot to hold from now on: another one
   * when the same content is already cached.
   */
  seal(slot: number, names: BlockNames, index: number): number {
    const low = names.hashes[2 * index]!;
    const high = names.hashes[2 * index + 1]!;
    const existing = this.find(low, high);
    if (existing >= 0) {
      this.unpin(slot);
      this.pin(existing);
      return existing;
    }
    this.#low[slot] = low;
    this.#high[slot] = high;
    this.#isShared[slot] = 1;
    this.#insert(slot, low);
    this.#listener?.stored(names, index);
    return slot;
  }

  /** Drops a reference. A private block becomes free; a shared one stays cached as the most recently released. */
  unpin(slot: number): void {
    const left = --this.#references[slot]!;
    if (left > 0) return;
    assert(left === 0, 'block released twice');
    this.#activeCount--;
    if (this.#isShared[slot] === 1) {
      this.#linkNewest(slot);
      this.#cachedCount++;
    } else {
      this.#free[this.#freeCount++] = slot;
    }
  }

  /** Drops the content of every block: cached blocks become free; those in use become free when they are released. */
  clear(): void {
    for (let slot = this.#newer[this.capacity]!; slot !== this.capacity; slot = this.#newer[this.capacity]!) {
      this.#unlink(slot);
      this.#free[this.#freeCount++] = slot;
    }
    this.#cachedCount = 0;
    this.#isShared.fill(0);
    this.#table.fill(0);
    this.#listener?.cleared?.();
  }

  #evict(): void {
    const slot = this.#newer[this.capacity]!; // the list's first entry is the least recently released
    this.#unlink(slot);
    this.#cachedCount--;
    this.#isShared[slot] = 0;
    this.#erase(slot);
    this.#free[this.#freeCount++] = slot;
    this.#listener?.removed(this.#low[slot]!, this.#high[slot]!);
  }

  #linkNewest(slot: number): void {
    const end = this.capacity;
    const last = this.#older[end]!;
    this.#older[slot] = last;
    this.#newer[slot] = end;
    this.#newer[last] = slot;
    this.#older[end] = slot;
  }

  #unlink(slot: number): void {
    const older = this.#older[slot]!;
    const newer = this.#newer[slot]!;
    this.#newer[older] = newer;
    this.#older[newer] = older;
  }

  #insert(slot: number, low: number): void {
    let at = low & this.#mask;
    while (this.#table[at] !== 0) at = (at + 1) & this.#mask;
    this.#table[at] = slot + 1;
  }

  /** Removes a table entry and moves later entries of its run back, so that no tombstones are needed. */
  #erase(slot: number): void {
    let hole = this.#low[slot]! & this.#mask;
    while (this.#table[hole] !== slot + 1) hole = (hole + 1) & this.#mask;
    let at = hole;
    for (;;) {
      at = (at + 1) & this.#mask;
      const entry = this.#table[at]!;
      if (entry === 0) break;
      const home = this.#low[entry - 1]! & this.#mask;
      if (((at - home) & this.#mask) < ((at - hole) & this.#mask)) continue; // its home lies after the hole
      this.#table[hole] = entry;
      hole = at;
    }
    this.#table[hole] = 0;
  }
}
