import { invariant } from '../errors/index.ts';
import { BLOCK, type HashTable, NUMBER_MAX } from './hash-table.ts';
import { RECENT } from './holder-sets.ts';
import { PAGE_MASK, PAGE_SHIFT, PAGE_WORDS, type PagedWords } from './memory.ts';

/** Parent of the first blocks of prompts. It is not a block, holds nothing and is never freed. */
export const ROOT = 0;

const WORD_SHIFT = 3;
const BLOCK_SHIFT = PAGE_SHIFT - WORD_SHIFT;
export const BLOCKS_PER_PAGE = 1 << BLOCK_SHIFT;
const SEQUENCE = 0;
const HOLDERS = 2;
const BACK = 3;
const NEXT = 4;
const CHILD = 5;
const SKIP = 6;
const DEPTH = 7;

/** Flag in `BACK`: the number is the parent's, because the block is its first child. */
const IS_FIRST = 1 << 31;
/** Flag in `BACK`: the record is not a block. */
const IS_FREE = 1 << 30;
/** Value of `SKIP` in a free record, instead of the free record before it: the record is on no list. */
const UNLISTED = -1;
/**
 * Flag in `DEPTH`: the skip is the parent. Others held the parent when the block was made, or the block has siblings.
 */
const IS_HEAD = 1 << 31;

/**
 * The tree of blocks, with one record of 32 bytes for each. Two records fill a line of the processor's cache. The local
 * hashes, which only dumps use, are apart from them:
 *
 *     sequence hash 64 | holders 32 | back 32 | next 32 | child 32 | skip 32 | depth 32          local hash 64
 *
 *     parent --child--> first --next--> second --next--> ...
 *            <--back--        <--back--        <--back--
 *
 * `skip` leads far up: to the first block of the chain that had the same holders when the block was made, and from
 * there to its parent. It saves steps while the holders are still the same, and is an ancestor in any case.
 */
export class BlockRecords {
  readonly #words: PagedWords;
  readonly #locals: PagedWords;
  readonly #table: HashTable;
  /** First free record. `NEXT` links them forwards, and `SKIP` backwards. */
  #free = 0;
  #top = 1;
  #count = 0;
  /** Number from which on records will be freed: none of them is used again. */
  #keptTop = Number.POSITIVE_INFINITY;

  constructor(words: PagedWords, locals: PagedWords, table: HashTable) {
    this.#words = words;
    this.#locals = locals;
    this.#table = table;
    words.reach(0);
    locals.reach(0);
  }

  get count(): number {
    return this.#count;
  }

  /** Largest number ever used, plus one. */
  get top(): number {
    return this.#top;
  }

  /**
   * Creates a block below `parent`, which must not have it yet.
   * @param isSame whether the parent has the same holders
   * @returns its number; 0 if there is no room
   */
  create(
    parent: number,
    low: number,
    high: number,
    localLow: number,
    localHigh: number,
    holders: number,
    isSame: boolean,
  ): number {
    while (this.#free >= this.#keptTop) this.#unlist(this.#free);
    const isReused = this.#free !== 0;
    const block = isReused ? this.#free : this.#top;
    if (block > NUMBER_MAX) return 0;
    if (!isReused && (block & (BLOCKS_PER_PAGE - 1)) === 0) {
      this.#words.reach(block >>> BLOCK_SHIFT);
      this.#locals.reach(block >>> (PAGE_SHIFT - 1));
    }
    if (!this.#table.insert(BLOCK, block, low, high)) return 0;
    const above = this.#words.writable(parent >>> BLOCK_SHIFT);
    const up = offsetOf(parent);
    invariant(above[up + BACK] !== IS_FREE, 'a parent is in the index');
    const sibling = above[up + CHILD] as number;
    const isHead = parent === ROOT || sibling !== 0 || !isSame;
    const depth = above[up + DEPTH] as number;
    const skip = isHead || depth < 0 ? parent : (above[up + SKIP] as number);
    above[up + CHILD] = block;
    const page = this.#words.writable(block >>> BLOCK_SHIFT);
    const at = offsetOf(block);
    if (isReused) this.#unlist(block);
    else this.#top++;
    page[at + SEQUENCE] = low;
    page[at + SEQUENCE + 1] = high;
    page[at + HOLDERS] = holders;
    page[at + BACK] = parent | IS_FIRST;
    page[at + NEXT] = sibling;
    page[at + CHILD] = 0;
    page[at + SKIP] = skip;
    page[at + DEPTH] = ((depth & ~IS_HEAD) + 1) | (isHead ? IS_HEAD : 0);
    const locals = this.#locals.writable(block >>> (PAGE_SHIFT - 1));
    locals[(block << 1) & PAGE_MASK] = localLow;
    locals[((block << 1) & PAGE_MASK) + 1] = localHigh;
    if (sibling !== 0) this.#pushBack(sibling, block, parent);
    this.#count++;
    return block;
  }

  /** Removes a block without children from tree and table. @returns its parent if that has no children left, else 0 */
  remove(block: number): number {
    const page = this.#words.writable(block >>> BLOCK_SHIFT);
    const at = offsetOf(block);
    const back = page[at + BACK] as number;
    invariant(block !== ROOT && back !== IS_FREE, 'a block is removed once');
    invariant(page[at + CHILD] === 0, 'a block that is removed has no children');
    this.#table.remove(BLOCK, block, page[at + SEQUENCE] as number, page[at + SEQUENCE + 1] as number);
    const next = page[at + NEXT] as number;
    const isFirst = (back & IS_FIRST) !== 0;
    page[at + HOLDERS] = 0;
    this.#release(block, page, at);
    this.#count--;
    if (isFirst) this.#set(back & ~IS_FIRST, CHILD, next);
    else this.#set(back, NEXT, next);
    if (next !== 0) this.#set(next, BACK, back);
    return isFirst && next === 0 ? back & ~IS_FIRST : 0;
  }

  /** @param page the page of the record, in which it stands at `at` */
  #release(block: number, page: Int32Array, at: number): void {
    const isListed = block < this.#keptTop;
    page[at + BACK] = IS_FREE;
    page[at + SKIP] = isListed ? 0 : UNLISTED;
    if (!isListed) return;
    page[at + NEXT] = this.#free;
    if (this.#free !== 0) this.#set(this.#free, SKIP, block);
    this.#free = block;
  }

  #unlist(block: number): void {
    const before = this.#get(block, SKIP);
    if (before === UNLISTED) return;
    const next = this.#get(block, NEXT);
    if (before === 0) this.#free = next;
    else this.#set(before, NEXT, next);
    if (next !== 0) this.#set(next, SKIP, before);
    this.#set(block, SKIP, UNLISTED);
  }

  /** Stops the reuse of records from `top` on, so that `retire` can free them one by one. */
  keepTo(top: number): void {
    this.#keptTop = top;
  }

  /** Frees the last record, which is not in use. @returns whether this freed a page */
  retire(): boolean {
    this.#top--;
    this.#unlist(this.#top);
    if ((this.#top & (BLOCKS_PER_PAGE - 1)) !== 0) return false;
    this.#words.cutTo(this.#top >>> BLOCK_SHIFT);
    this.#locals.cutTo(Math.ceil((2 * this.#top) / PAGE_WORDS));
    return true;
  }

  /** Makes the skip of a block lead to its parent, because the block is no longer its first child. */
  #pushBack(block: number, before: number, parent: number): void {
    const page = this.#words.writable(block >>> BLOCK_SHIFT);
    const at = offsetOf(block);
    page[at + BACK] = before;
    if ((page[at + DEPTH] as number) < 0) return;
    page[at + SKIP] = parent;
    page[at + DEPTH] = (page[at + DEPTH] as number) | IS_HEAD;
  }

  parentOf(block: number): number {
    return this.#get(block, DEPTH) < 0 ? this.#get(block, SKIP) : this.#get(block, BACK) & ~IS_FIRST;
  }

  /** Position of the block in its prompts, from 1. */
  depth(block: number): number {
    return this.#get(block, DEPTH) & ~IS_HEAD;
  }

  /** Returns an ancestor, or `ROOT`. From it down to the block, the holders are probably the block's own. */
  skip(block: number): number {
    return this.#get(block, SKIP);
  }

  /** Returns the first child; 0 if there is none. */
  child(block: number): number {
    return this.#get(block, CHILD);
  }

  /** Returns the next child of the same parent; 0 after the last one. */
  next(block: number): number {
    return this.#get(block, NEXT);
  }

  /** Whether the number belongs to a block with this sequence hash. */
  hasHash(block: number, low: number, high: number): boolean {
    return block !== ROOT && !this.isFree(block) && this.low(block) === low && this.high(block) === high;
  }

  isFree(block: number): boolean {
    return block >= this.#top || this.#get(block, BACK) === IS_FREE;
  }

  holders(block: number): number {
    return this.#get(block, HOLDERS);
  }

  /** Whether exactly these holders have the block, and it has no children. */
  isLeafOf(block: number, holders: number): boolean {
    const page = this.#words.pages[block >>> BLOCK_SHIFT] as Int32Array;
    const at = offsetOf(block);
    return page[at + CHILD] === 0 && ((page[at + HOLDERS] as number) & ~RECENT) === holders;
  }

  setHolders(block: number, holders: number): void {
    this.#set(block, HOLDERS, holders);
  }

  /** Low half of the sequence hash. */
  low(block: number): number {
    return this.#get(block, SEQUENCE);
  }

  high(block: number): number {
    return this.#get(block, SEQUENCE + 1);
  }

  localLow(block: number): number {
    return (this.#locals.pages[block >>> (PAGE_SHIFT - 1)] as Int32Array)[(block << 1) & PAGE_MASK] as number;
  }

  localHigh(block: number): number {
    return (this.#locals.pages[block >>> (PAGE_SHIFT - 1)] as Int32Array)[((block << 1) & PAGE_MASK) + 1] as number;
  }

  /**
   * Rebuilds the lists after words were replaced by those of a snapshot: blocks up to `to`, where the last call ended.
   */
  restore(to: number): void {
    for (; this.#top < to; this.#top++) {
      const block = this.#top;
      const page = this.#words.pages[block >>> BLOCK_SHIFT] as Int32Array;
      const at = offsetOf(block);
      if (page[at + BACK] === IS_FREE) this.#release(block, page, at);
      else {
        this.#table.note(BLOCK, block, page[at + SEQUENCE] as number, page[at + SEQUENCE + 1] as number);
        this.#count++;
      }
    }
  }

  #get(block: number, field: number): number {
    return (this.#words.pages[block >>> BLOCK_SHIFT] as Int32Array)[offsetOf(block) + field] as number;
  }

  #set(block: number, field: number, word: number): void {
    this.#words.writable(block >>> BLOCK_SHIFT)[offsetOf(block) + field] = word;
  }
}

function offsetOf(block: number): number {
  return (block << WORD_SHIFT) & PAGE_MASK;
}
