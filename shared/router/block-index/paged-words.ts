import type { MemoryUse } from './memory-bound.ts';

export const PAGE_SHIFT = 17;
/** Words of a page: 512 KiB, copied in less than 0.2 ms. */
export const PAGE_WORDS = 1 << PAGE_SHIFT;
export const PAGE_MASK = PAGE_WORDS - 1;

/** Pages as a snapshot wants them; those it has taken are undefined. */
export type FrozenPages = (Int32Array | undefined)[];

/**
 * 32-bit words in pages: growth copies nothing, and a page's memory is taken when it is first written. While a snapshot is
 * being written, a page that it has not reached is copied before its first change:
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
