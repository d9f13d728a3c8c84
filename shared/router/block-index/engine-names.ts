import { type HashTable, NUMBER_MAX, PRIVATE_NAME, SHARED_NAME } from './hash-table.ts';
import { PAGE_MASK, PAGE_SHIFT, PAGE_WORDS, type PagedWords } from './paged-words.ts';

/** Bits of a holding's tiers by the way in which the block was named; the lowest are those by our own hash. */
export const BY_SHARED_NAME = 4;
export const BY_PRIVATE_NAME = 8;
export const LEVEL_MASK = 15;

/** Names looked at in a slice of less than 1 ms. */
const RESTORED_AT_ONCE = 1 << 14;

const BLOCK_SHIFT = 2;
const FIRST_PRIVATE = 2;
const USERS = 3;

const PRIVATE_SHIFT = 3;
const OF_BLOCK = 2;
const OF_INCARNATION = 3;
const LEVELS = 4;
const NEXT = 5;
const BACK = 6;

/**
 * What engines call blocks, where that is not our own sequence hash. The first other name of a block is shared
 * by all its holders that use it, beside the block's record; who uses yet another one gets a record of its own:
 *
 *     by block     shared name 64 | first private name | holders that use the shared name
 *     private      name 64 | block | incarnation | levels | next of the block | back | -
 */
export class EngineNames {
  readonly #shared: PagedWords;
  readonly #private: PagedWords;
  readonly #table: HashTable;
  #free = 0;
  #top = 1;

  constructor(shared: PagedWords, own: PagedWords, table: HashTable) {
    this.#shared = shared;
    this.#private = own;
    this.#table = table;
  }

  /** Largest number of a private name ever used, plus one. */
  get top(): number {
    return this.#top;
  }

  get isNearlyFull(): boolean {
    return this.#top > NUMBER_MAX - (1 << 20);
  }

  /**
   * `incarnation`, which holds `tiers` of `block` so far, holds it by this name in `level`.
   * @returns the bit to add to its tiers; 0 when there is no room
   */
  bind(block: number, incarnation: number, tiers: number, low: number, high: number, level: number): number {
    this.#shared.reach(block >>> (PAGE_SHIFT - BLOCK_SHIFT));
    const own = tiers >>> BY_PRIVATE_NAME === 0 ? 0 : this.#findPrivate(block, incarnation, low, high);
    if (own !== 0) {
      this.#setPrivate(own, LEVELS, this.levelsOf(own) | (1 << level));
      return 1 << (level + BY_PRIVATE_NAME);
    }
    const users = this.#getShared(block, USERS);
    if (users === 0) {
      this.#setShared(block, 0, low);
      this.#setShared(block, 1, high);
      if (!this.#table.insert(SHARED_NAME, block, low, high)) return 0;
      this.#setShared(block, USERS, 1);
      return 1 << (level + BY_SHARED_NAME);
    }
    if (this.#getShared(block, 0) === low && this.#getShared(block, 1) === high) {
      if (((tiers >>> BY_SHARED_NAME) & LEVEL_MASK) === 0) this.#setShared(block, USERS, users + 1);
      return 1 << (level + BY_SHARED_NAME);
    }
    return this.#createPrivate(block, incarnation, low, high, 1 << level) ? 1 << (level + BY_PRIVATE_NAME) : 0;
  }

  /** A holder uses the shared name of the block no longer. */
  releaseShared(block: number): void {
    const users = this.#getShared(block, USERS) - 1;
    this.#setShared(block, USERS, users);
    if (users === 0) this.#table.remove(SHARED_NAME, block, this.sharedLow(block), this.sharedHigh(block));
  }

  /** Keeps of the private names that `incarnation` uses for `block` the levels in `mask`. @returns the levels left */
  keepPrivate(block: number, incarnation: number, mask: number): number {
    let left = 0;
    for (let name = this.firstPrivate(block); name !== 0; ) {
      const next = this.nextPrivate(name);
      if (this.incarnationOf(name) === incarnation) left |= this.keepLevels(name, mask);
      name = next;
    }
    return left;
  }

  /** Levels that the private names of `incarnation` for `block` have together. */
  privateLevels(block: number, incarnation: number): number {
    return this.keepPrivate(block, incarnation, LEVEL_MASK);
  }

  /** Keeps the levels in `mask` of a private name, which goes when none is left. @returns the levels left */
  keepLevels(name: number, mask: number): number {
    const left = this.levelsOf(name) & mask;
    if (left === 0) this.#removePrivate(name);
    else if (left !== this.levelsOf(name)) this.#setPrivate(name, LEVELS, left);
    return left;
  }

  /** There are no blocks from number `top` on any more. */
  cutTo(top: number): void {
    this.#shared.cutTo(Math.ceil(top / (PAGE_WORDS >>> BLOCK_SHIFT)));
  }

  sharedLow(block: number): number {
    return this.#getShared(block, 0);
  }

  sharedHigh(block: number): number {
    return this.#getShared(block, 1);
  }

  /** First private name of a block that has names; 0 when there is none. */
  firstPrivate(block: number): number {
    return this.#getShared(block, FIRST_PRIVATE);
  }

  nextPrivate(name: number): number {
    return this.#getPrivate(name, NEXT);
  }

  blockOf(name: number): number {
    return this.#getPrivate(name, OF_BLOCK);
  }

  incarnationOf(name: number): number {
    return this.#getPrivate(name, OF_INCARNATION);
  }

  levelsOf(name: number): number {
    return this.#getPrivate(name, LEVELS);
  }

  low(name: number): number {
    return this.#getPrivate(name, 0);
  }

  high(name: number): number {
    return this.#getPrivate(name, 1);
  }

  /** Finds its way again after the words were replaced by those of a snapshot, in slices. */
  *restore(blocksTop: number, privateTop: number): Generator<void, void> {
    const named = Math.min(blocksTop, this.#shared.pages.length << (PAGE_SHIFT - BLOCK_SHIFT));
    for (let block = 1; block < named; block++) {
      if (block % RESTORED_AT_ONCE === 0) yield;
      if (this.#getShared(block, USERS) === 0) continue;
      this.#table.note(SHARED_NAME, block, this.sharedLow(block), this.sharedHigh(block));
    }
    this.#top = privateTop;
    for (let name = 1; name < privateTop; name++) {
      if (name % RESTORED_AT_ONCE === 0) yield;
      if (this.levelsOf(name) === 0) {
        this.#setPrivate(name, NEXT, this.#free);
        this.#free = name;
      } else this.#table.note(PRIVATE_NAME, name, this.low(name), this.high(name));
    }
  }

  #findPrivate(block: number, incarnation: number, low: number, high: number): number {
    for (let name = this.firstPrivate(block); name !== 0; name = this.nextPrivate(name)) {
      if (this.incarnationOf(name) === incarnation && this.low(name) === low && this.high(name) === high) return name;
    }
    return 0;
  }

  #createPrivate(block: number, incarnation: number, low: number, high: number, levels: number): boolean {
    const name = this.#free !== 0 ? this.#free : this.#top;
    if (name > NUMBER_MAX) return false;
    this.#private.reach(name >>> (PAGE_SHIFT - PRIVATE_SHIFT));
    const following = this.#free !== 0 ? this.nextPrivate(name) : 0;
    this.#setPrivate(name, 0, low);
    this.#setPrivate(name, 1, high);
    if (!this.#table.insert(PRIVATE_NAME, name, low, high)) return false;
    if (this.#free !== 0) this.#free = following;
    else this.#top++;
    const first = this.firstPrivate(block);
    this.#setPrivate(name, OF_BLOCK, block);
    this.#setPrivate(name, OF_INCARNATION, incarnation);
    this.#setPrivate(name, LEVELS, levels);
    this.#setPrivate(name, NEXT, first);
    this.#setPrivate(name, BACK, 0);
    if (first !== 0) this.#setPrivate(first, BACK, name);
    this.#setShared(block, FIRST_PRIVATE, name);
    return true;
  }

  #removePrivate(name: number): void {
    this.#table.remove(PRIVATE_NAME, name, this.low(name), this.high(name));
    const next = this.nextPrivate(name);
    const back = this.#getPrivate(name, BACK);
    if (back === 0) this.#setShared(this.blockOf(name), FIRST_PRIVATE, next);
    else this.#setPrivate(back, NEXT, next);
    if (next !== 0) this.#setPrivate(next, BACK, back);
    this.#setPrivate(name, LEVELS, 0);
    this.#setPrivate(name, NEXT, this.#free);
    this.#free = name;
  }

  #getShared(block: number, field: number): number {
    const page = this.#shared.pages[block >>> (PAGE_SHIFT - BLOCK_SHIFT)] as Int32Array;
    return page[((block << BLOCK_SHIFT) & PAGE_MASK) + field] as number;
  }

  #setShared(block: number, field: number, word: number): void {
    const page = this.#shared.writable(block >>> (PAGE_SHIFT - BLOCK_SHIFT));
    page[((block << BLOCK_SHIFT) & PAGE_MASK) + field] = word;
  }

  #getPrivate(name: number, field: number): number {
    const page = this.#private.pages[name >>> (PAGE_SHIFT - PRIVATE_SHIFT)] as Int32Array;
    return page[((name << PRIVATE_SHIFT) & PAGE_MASK) + field] as number;
  }

  #setPrivate(name: number, field: number, word: number): void {
    const page = this.#private.writable(name >>> (PAGE_SHIFT - PRIVATE_SHIFT));
    page[((name << PRIVATE_SHIFT) & PAGE_MASK) + field] = word;
  }
}
