import { invariant } from '../errors/index.ts';
import { type HashTable, NUMBER_MAX, PRIVATE_HASH, SHARED_HASH } from './hash-table.ts';
import { BY_PRIVATE_HASH, BY_SHARED_HASH, TIER_BITS } from './holder-sets.ts';
import { PAGE_MASK, PAGE_SHIFT, PAGE_WORDS, type PagedWords } from './memory.ts';

/** Hashes restored in a slice of less than 1 ms. */
const RESTORED_AT_ONCE = 1 << 14;

const BLOCK_SHIFT = 2;
const FIRST_PRIVATE = 2;
const USERS = 3;

const PRIVATE_SHIFT = 3;
const OF_BLOCK = 2;
const OF_INCARNATION = 3;
const TIERS = 4;
const NEXT = 5;
const BACK = 6;

/**
 * Engine hashes of blocks, if they differ from Stator's sequence hashes. All holders that use the first other hash of a
 * block share it, beside the block's record. A holder that uses yet another one gets a record of its own:
 *
 *     by block     shared hash 64 | first private hash | holders that use the shared hash
 *     private      hash 64 | block | incarnation | tiers | next of the block | back | -
 */
export class EngineHashes {
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

  /** Largest number of a private hash ever used, plus one. */
  get top(): number {
    return this.#top;
  }

  get isNearlyFull(): boolean {
    return this.#top > NUMBER_MAX - (1 << 20);
  }

  /**
   * Binds this hash in `tier` to `incarnation`, which so far holds `tiers` of `block`.
   * @returns the bit to add to its tiers; 0 if there is no room
   */
  bind(block: number, incarnation: number, tiers: number, low: number, high: number, tier: number): number {
    this.#shared.reach(block >>> (PAGE_SHIFT - BLOCK_SHIFT));
    const own = tiers >>> BY_PRIVATE_HASH === 0 ? 0 : this.#findPrivate(block, incarnation, low, high);
    if (own !== 0) {
      this.#setPrivate(own, TIERS, this.tiersOf(own) | (1 << tier));
      return 1 << (tier + BY_PRIVATE_HASH);
    }
    const users = this.#getShared(block, USERS);
    if (users === 0) {
      this.#setShared(block, 0, low);
      this.#setShared(block, 1, high);
      if (!this.#table.insert(SHARED_HASH, block, low, high)) return 0;
      this.#setShared(block, USERS, 1);
      return 1 << (tier + BY_SHARED_HASH);
    }
    if (this.#getShared(block, 0) === low && this.#getShared(block, 1) === high) {
      if (((tiers >>> BY_SHARED_HASH) & TIER_BITS) === 0) this.#setShared(block, USERS, users + 1);
      return 1 << (tier + BY_SHARED_HASH);
    }
    return this.#createPrivate(block, incarnation, low, high, 1 << tier) ? 1 << (tier + BY_PRIVATE_HASH) : 0;
  }

  /** Records that one holder less uses the shared hash of the block. */
  releaseShared(block: number): void {
    const users = this.#getShared(block, USERS) - 1;
    invariant(users >= 0, 'a shared hash is let go of as often as it was taken');
    this.#setShared(block, USERS, users);
    if (users === 0) this.#table.remove(SHARED_HASH, block, this.sharedLow(block), this.sharedHigh(block));
  }

  /**
   * Keeps only the tiers in `mask` of the private hashes that `incarnation` uses for `block`. @returns the tiers left
   */
  keepPrivate(block: number, incarnation: number, mask: number): number {
    let left = 0;
    for (let hash = this.firstPrivate(block); hash !== 0; ) {
      const next = this.nextPrivate(hash);
      if (this.incarnationOf(hash) === incarnation) left |= this.keepTiers(hash, mask);
      hash = next;
    }
    return left;
  }

  /** Returns the tiers that the private hashes of `incarnation` for `block` have together. */
  privateTiers(block: number, incarnation: number): number {
    return this.keepPrivate(block, incarnation, TIER_BITS);
  }

  /** Keeps only the tiers in `mask` of a private hash, and removes it if none is left. @returns the tiers left */
  keepTiers(hash: number, mask: number): number {
    const left = this.tiersOf(hash) & mask;
    if (left === 0) this.#removePrivate(hash);
    else if (left !== this.tiersOf(hash)) this.#setPrivate(hash, TIERS, left);
    return left;
  }

  /** Frees the pages of the blocks from number `top` on, which no longer exist. */
  cutTo(top: number): void {
    this.#shared.cutTo(Math.ceil(top / (PAGE_WORDS >>> BLOCK_SHIFT)));
  }

  sharedLow(block: number): number {
    return this.#getShared(block, 0);
  }

  sharedHigh(block: number): number {
    return this.#getShared(block, 1);
  }

  /** Returns the first private hash of a block that has hashes; 0 if there is none. */
  firstPrivate(block: number): number {
    return this.#getShared(block, FIRST_PRIVATE);
  }

  nextPrivate(hash: number): number {
    return this.#getPrivate(hash, NEXT);
  }

  blockOf(hash: number): number {
    return this.#getPrivate(hash, OF_BLOCK);
  }

  incarnationOf(hash: number): number {
    return this.#getPrivate(hash, OF_INCARNATION);
  }

  tiersOf(hash: number): number {
    return this.#getPrivate(hash, TIERS);
  }

  low(hash: number): number {
    return this.#getPrivate(hash, 0);
  }

  high(hash: number): number {
    return this.#getPrivate(hash, 1);
  }

  /** Rebuilds its lists, in slices, after the words were replaced by those of a snapshot. */
  *restore(blocksTop: number, privateTop: number): Generator<void, void> {
    const named = Math.min(blocksTop, this.#shared.pages.length << (PAGE_SHIFT - BLOCK_SHIFT));
    for (let block = 1; block < named; block++) {
      if (block % RESTORED_AT_ONCE === 0) yield;
      if (this.#getShared(block, USERS) === 0) continue;
      this.#table.note(SHARED_HASH, block, this.sharedLow(block), this.sharedHigh(block));
    }
    this.#top = privateTop;
    for (let hash = 1; hash < privateTop; hash++) {
      if (hash % RESTORED_AT_ONCE === 0) yield;
      if (this.tiersOf(hash) === 0) {
        this.#setPrivate(hash, NEXT, this.#free);
        this.#free = hash;
      } else this.#table.note(PRIVATE_HASH, hash, this.low(hash), this.high(hash));
    }
  }

  #findPrivate(block: number, incarnation: number, low: number, high: number): number {
    for (let hash = this.firstPrivate(block); hash !== 0; hash = this.nextPrivate(hash)) {
      if (this.incarnationOf(hash) === incarnation && this.low(hash) === low && this.high(hash) === high) return hash;
    }
    return 0;
  }

  #createPrivate(block: number, incarnation: number, low: number, high: number, tiers: number): boolean {
    const hash = this.#free !== 0 ? this.#free : this.#top;
    if (hash > NUMBER_MAX) return false;
    this.#private.reach(hash >>> (PAGE_SHIFT - PRIVATE_SHIFT));
    const following = this.#free !== 0 ? this.nextPrivate(hash) : 0;
    this.#setPrivate(hash, 0, low);
    this.#setPrivate(hash, 1, high);
    if (!this.#table.insert(PRIVATE_HASH, hash, low, high)) return false;
    if (this.#free !== 0) this.#free = following;
    else this.#top++;
    const first = this.firstPrivate(block);
    this.#setPrivate(hash, OF_BLOCK, block);
    this.#setPrivate(hash, OF_INCARNATION, incarnation);
    this.#setPrivate(hash, TIERS, tiers);
    this.#setPrivate(hash, NEXT, first);
    this.#setPrivate(hash, BACK, 0);
    if (first !== 0) this.#setPrivate(first, BACK, hash);
    this.#setShared(block, FIRST_PRIVATE, hash);
    return true;
  }

  #removePrivate(hash: number): void {
    this.#table.remove(PRIVATE_HASH, hash, this.low(hash), this.high(hash));
    const next = this.nextPrivate(hash);
    const back = this.#getPrivate(hash, BACK);
    if (back === 0) this.#setShared(this.blockOf(hash), FIRST_PRIVATE, next);
    else this.#setPrivate(back, NEXT, next);
    if (next !== 0) this.#setPrivate(next, BACK, back);
    this.#setPrivate(hash, TIERS, 0);
    this.#setPrivate(hash, NEXT, this.#free);
    this.#free = hash;
  }

  #getShared(block: number, field: number): number {
    const page = this.#shared.pages[block >>> (PAGE_SHIFT - BLOCK_SHIFT)] as Int32Array;
    return page[((block << BLOCK_SHIFT) & PAGE_MASK) + field] as number;
  }

  #setShared(block: number, field: number, word: number): void {
    const page = this.#shared.writable(block >>> (PAGE_SHIFT - BLOCK_SHIFT));
    page[((block << BLOCK_SHIFT) & PAGE_MASK) + field] = word;
  }

  #getPrivate(hash: number, field: number): number {
    const page = this.#private.pages[hash >>> (PAGE_SHIFT - PRIVATE_SHIFT)] as Int32Array;
    return page[((hash << PRIVATE_SHIFT) & PAGE_MASK) + field] as number;
  }

  #setPrivate(hash: number, field: number, word: number): void {
    const page = this.#private.writable(hash >>> (PAGE_SHIFT - PRIVATE_SHIFT));
    page[((hash << PRIVATE_SHIFT) & PAGE_MASK) + field] = word;
  }
}
