export const PAGE_SHIFT = 17;
/** Words of a page: 512 KiB, copied in less than 0.2 ms. */
export const PAGE_WORDS = 1 << PAGE_SHIFT;
export const PAGE_MASK = PAGE_WORDS - 1;

/** Pages as a snapshot wants them; those it has taken are undefined. */
export type FrozenPages = (Int32Array | undefined)[];

/**
 * 32-bit words in pages: growth copies nothing, and a page's memory is taken when it is first written. While a snapshot
 * is being written, a page that it has not reached is copied before its first change:
 *
 *     pages    0'  1   2'  3      what the index reads and changes
 *     frozen   -   1   2   3      what the snapshot has yet to write: 0 is done, 2 was changed meanwhile
 */
export class PagedWords {
  readonly pages: Int32Array[] = [];
  readonly #use: MemoryUse;
  #frozen: FrozenPages | undefined;

  /** @param use where its pages are counted */
  constructor(use: MemoryUse) {
    this.#use = use;
  }

  /** Makes sure that the page is there. */
  reach(page: number): void {
    while (this.pages.length <= page) this.#add(new Int32Array(PAGE_WORDS));
  }

  /** The page, to be changed. It may be another array than before: look it up again for each change. */
  writable(page: number): Int32Array {
    if (this.#frozen !== undefined) this.#preserve(page);
    return this.pages[page] as Int32Array;
  }

  #preserve(page: number): void {
    const current = this.pages[page] as Int32Array;
    if (this.#frozen?.[page] === current) this.pages[page] = current.slice();
  }

  /** Takes over the words of a page: a whole one as it lies, so that loading copies nothing. */
  restore(page: number, words: Int32Array): void {
    if (words.length === PAGE_WORDS && page === this.pages.length) {
      this.#add(words);
      return;
    }
    this.reach(page);
    (this.pages[page] as Int32Array).set(words);
  }

  /** Gives back the pages from number `from` on. */
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

  /** Keeps all words as they are now, for `take`. What was frozen before is given up. */
  freeze(): FrozenPages {
    this.#frozen = [...this.pages];
    return this.#frozen;
  }

  /** A page as it was at `freeze`; it is not kept any longer. */
  take(frozen: FrozenPages, page: number): Int32Array {
    if (frozen !== this.#frozen) throw new Error('a later snapshot has begun');
    const kept = frozen[page];
    if (kept === undefined) throw new RangeError(`page ${page} was taken before`);
    frozen[page] = undefined;
    return kept;
  }

  /** Keeps nothing any longer. */
  thaw(frozen: FrozenPages): void {
    if (frozen === this.#frozen) this.#frozen = undefined;
  }
}

/** Bytes taken from memory, less those given back. */
export interface MemoryUse {
  bytes: number;
}

/** Eviction begins below the bound, for what still grows while it goes on: tables, names, sets of holders. */
const FILLED = 15 / 16;
/** The least that a block takes; so many more blocks give way for what has grown. */
const BYTES_A_BLOCK = 40;
/** An index that is allowed next to nothing still works, for the prompts of the last moments. */
const BLOCKS_MIN = 4096;

/**
 * How many blocks an index may have, so that its memory stays within bounds: as many as it has when it reaches them,
 * and fewer for everything that grows after that.
 */
export class BlockAllowance {
  readonly #blocksMax: number;
  readonly #bytesMax: () => number;
  #blocks: number;
  #seenBytes = 0;

  /** @param bytesMax asked whenever the index has grown */
  constructor(blocksMax: number, bytesMax: () => number) {
    this.#blocksMax = blocksMax;
    this.#bytesMax = bytesMax;
    this.#blocks = blocksMax;
  }

  /** @param count blocks there are, in an index that takes `bytes` */
  blocksMax(count: number, bytes: number): number {
    if (bytes !== this.#seenBytes) this.#look(count, bytes);
    return this.#blocks;
  }

  /** Whether an index that takes `bytes` has to give some back: others need what it had before them. */
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

/** An index of any kind. */
interface Measured {
  readonly bytes: number;
}

/**
 * Memory that the indexes of a process share: first come, first served, but half of a fair share for each in any case.
 * Where that is more than is left, the largest one gives back what is too much.
 */
export class IndexMemory {
  readonly #bytesMax: number;
  readonly #indexes: () => Iterable<Measured | undefined>;

  /** @param indexes all there are at present */
  constructor(bytesMax: number, indexes: () => Iterable<Measured | undefined>) {
    this.#bytesMax = bytesMax;
    this.#indexes = indexes;
  }

  /** The index that `make` gives, which may take what the others leave. */
  bound<Index extends Measured>(make: (bytesMax: () => number) => Index): Index {
    const index: Index = make(() => this.leftFor(index));
    return index;
  }

  /** Bytes that the index may take: less than it has where it is the largest and others come short. */
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
