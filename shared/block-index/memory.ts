export const PAGE_SHIFT = 17;
/** Words of a page: 512 KiB, copied in less than 0.2 ms. */
export const PAGE_WORDS = 1 << PAGE_SHIFT;
export const PAGE_MASK = PAGE_WORDS - 1;

/** Pages to write to a snapshot. Those it has taken are undefined. */
export type FrozenPages = (Int32Array | undefined)[];

/**
 * 32-bit words in pages. Growth copies nothing, and a page takes memory when it is first written. While a snapshot is
 * being written, a page that it has not reached is copied before its first change:
 *
 *     pages    0'  1   2'  3      what the index reads and changes
 *     frozen   -   1   2   3      what the snapshot has yet to write: 0 is done, 2 was changed meanwhile
 */
export class PagedWords {
  readonly pages: Int32Array[] = [];
  readonly #use: MemoryUse;
  #frozen: FrozenPages | undefined;

  /** @param use counts the memory of its pages */
  constructor(use: MemoryUse) {
    this.#use = use;
  }

  /** Creates the page if it does not exist. */
  reach(page: number): void {
    while (this.pages.length <= page) this.#add(new Int32Array(PAGE_WORDS));
  }

  /** Returns the page for a change. It may be another array than before, so look it up again for each change. */
  writable(page: number): Int32Array {
    if (this.#frozen !== undefined) this.#preserve(page);
    return this.pages[page] as Int32Array;
  }

  #preserve(page: number): void {
    const current = this.pages[page] as Int32Array;
    if (this.#frozen?.[page] === current) this.pages[page] = current.slice();
  }

  /** Takes over the words of a page. A whole page is used without a copy, so that loading copies nothing. */
  restore(page: number, words: Int32Array): void {
    if (words.length === PAGE_WORDS && page === this.pages.length) {
      this.#add(words);
      return;
    }
    this.reach(page);
    (this.pages[page] as Int32Array).set(words);
  }

  /** Frees the pages from number `from` on. */
  cutTo(from: number): void {
    while (this.pages.length > from) {
      this.pages.pop();
      this.#use.bytes -= 4 * PAGE_WORDS;
    }
  }

  #add(words: Int32Array): void {
    this.pages.push(words);
    this.#use.bytes += 4 * PAGE_WORDS;
  }

  /** Keeps all words as they are now, for `take`. Drops what was frozen before. */
  freeze(): FrozenPages {
    this.#frozen = [...this.pages];
    return this.#frozen;
  }

  /** Returns a page as it was at `freeze`, and no longer keeps it. */
  take(frozen: FrozenPages, page: number): Int32Array {
    if (frozen !== this.#frozen) throw new Error('a later snapshot has begun');
    const kept = frozen[page];
    if (kept === undefined) throw new RangeError(`page ${page} was taken before`);
    frozen[page] = undefined;
    return kept;
  }

  /** Stops keeping the frozen pages. */
  thaw(frozen: FrozenPages): void {
    if (frozen === this.#frozen) this.#frozen = undefined;
  }
}

/** Bytes in use. */
export interface MemoryUse {
  bytes: number;
}

/**
 * Share of the bound at which eviction begins, because tables, names and sets of holders still grow during eviction.
 */
const FILLED = 15 / 16;
/** Least bytes of a block. For each that many bytes of growth, one block more is evicted. */
const BYTES_A_BLOCK = 40;
/** Number of blocks with which an index works even if its memory is smaller, for the most recent prompts. */
const BLOCKS_MIN = 4096;

/**
 * Computes how many blocks an index may have within the bound of its memory: as many as it has when it reaches the
 * bound, and fewer for everything that grows after that.
 */
export class BlockAllowance {
  readonly #blocksMax: number;
  readonly #bytesMax: () => number;
  #blocks: number;
  #seenBytes = 0;

  /** @param bytesMax returns the bound; called whenever the index has grown */
  constructor(blocksMax: number, bytesMax: () => number) {
    this.#blocksMax = blocksMax;
    this.#bytesMax = bytesMax;
    this.#blocks = blocksMax;
  }

  /** Returns the bound of the blocks. @param count number of blocks in an index that takes `bytes` */
  blocksMax(count: number, bytes: number): number {
    if (bytes !== this.#seenBytes) this.#look(count, bytes);
    return this.#blocks;
  }

  /** Whether an index that takes `bytes` must free some, because others need memory that it had first. */
  isOver(bytes: number): boolean {
    return bytes > this.#bytesMax();
  }

  #look(count: number, bytes: number): void {
    const grownBytes = bytes - this.#seenBytes;
    this.#seenBytes = bytes;
    const overBytes = bytes - FILLED * this.#bytesMax();
    if (overBytes <= 0) {
      this.#blocks = this.#blocksMax;
      return;
    }
    const fewer = Math.max(0, Math.ceil(Math.min(grownBytes, overBytes) / BYTES_A_BLOCK));
    this.#blocks = Math.min(this.#blocksMax, Math.max(BLOCKS_MIN, Math.min(this.#blocks, count) - fewer));
  }
}

/** An index of any kind, and its memory. */
interface Measured {
  readonly bytes: number;
}

/**
 * Memory that the indexes of a process share: first come, first served, but each may have half of a fair share in any
 * case. If less than that is left, the largest index frees the difference.
 */
export class IndexMemory {
  readonly #bytesMax: number;
  readonly #indexes: () => Iterable<Measured | undefined>;

  /** @param indexes returns all present indexes */
  constructor(bytesMax: number, indexes: () => Iterable<Measured | undefined>) {
    this.#bytesMax = bytesMax;
    this.#indexes = indexes;
  }

  /** Returns the index that `make` creates. It may take what the others leave. */
  bound<Index extends Measured>(make: (bytesMax: () => number) => Index): Index {
    const index: Index = make(() => this.leftFor(index));
    return index;
  }

  /**
   * Returns the bytes that the index may take. It is less than it has if it is the largest and others have too little.
   */
  leftFor(index: Measured): number {
    const own = index.bytes;
    let count = 1;
    let others = 0;
    let largest = 0;
    for (const each of this.#indexes()) {
      if (each === undefined || each === index) continue;
      count++;
      others += each.bytes;
      largest = Math.max(largest, each.bytes);
    }
    const left = this.#bytesMax - others;
    return Math.max(this.#bytesMax / (2 * count), own < largest ? Math.max(left, own) : left);
  }
}
