import { BLOCK, type HashTable, NUMBER_MAX } from './hash-table.ts';
import { PAGE_MASK, PAGE_SHIFT, type PagedWords } from './paged-words.ts';

/** Parent of the first blocks of prompts. It is no block, holds nothing and is never freed. */
export const ROOT = 0;

const WORD_SHIFT = 3;
const BLOCK_SHIFT = PAGE_SHIFT - WORD_SHIFT;
const SEQUENCE = 0;
const LOCAL = 2;
const HOLDERS = 4;
const BACK = 5;
const NEXT = 6;
const CHILD = 7;

/** In `BACK`: what stands there is the parent, since the block is its first child. */
const IS_FIRST = 1 << 31;
/** In `BACK`: no block. */
const IS_FREE = 1 << 30;

/**
 * The tree of blocks, one record of 32 bytes each; two fill a line of the processor's cache:
 *
 *     sequence hash 64 | local hash 64 | holders 32 | back 32 | next 32 | child 32
 *
 *     parent --child--> first --next--> second --next--> ...
 *            <--back--        <--back--        <--back--
 */
export class BlockRecords {
  readonly #words: PagedWords;
  readonly #table: HashTable;
  #free = 0;
  #top = 1;
  #count = 0;

  constructor(words: PagedWords, table: HashTable) {
    this.#words = words;
    this.#table = table;
    words.reach(0);
  }

  get count(): number {
    return this.#count;
  }

  /** Largest number ever used, plus one. */
  get top(): number {
    return this.#top;
  }

  /** Makes the block a child of `parent`. @returns its number; 0 when there is no room */
  create(parent: number, low: number, high: number, localLow: number, localHigh: number, holders: number): number {
    const block = this.#free !== 0 ? this.#free : this.#top;
    if (block > NUMBER_MAX) return 0;
    if (block === this.#top) this.#words.reach(block << WORD_SHIFT);
    const following = this.#free !== 0 ? this.next(block) : 0;
    const page = this.#words.writable(block >>> BLOCK_SHIFT);
    const at = offsetOf(block);
    // The key must stand before the table looks at it.
    page[at + SEQUENCE] = low;
    page[at + SEQUENCE + 1] = high;
    if (!this.#table.insert(BLOCK, block, low, high)) return 0;
    if (this.#free !== 0) this.#free = following;
    else this.#top++;
    page[at + LOCAL] = localLow;
    page[at + LOCAL + 1] = localHigh;
    page[at + HOLDERS] = holders;
    page[at + CHILD] = 0;
    this.#link(block, parent);
    this.#count++;
    return block;
  }

  #link(block: number, parent: number): void {
    const sibling = this.child(parent);
    const page = this.#words.writable(block >>> BLOCK_SHIFT);
    page[offsetOf(block) + BACK] = parent | IS_FIRST;
    page[offsetOf(block) + NEXT] = sibling;
    this.#set(parent, CHILD, block);
    if (sibling !== 0) this.#set(sibling, BACK, block);
  }

  /** Takes a block without children out of tree and table. @returns its parent if that has no children left, else 0 */
  remove(block: number): number {
    const page = this.#words.writable(block >>> BLOCK_SHIFT);
    const at = offsetOf(block);
    this.#table.remove(BLOCK, block, page[at + SEQUENCE] as number, page[at + SEQUENCE + 1] as number);
    const back = page[at + BACK] as number;
    const next = page[at + NEXT] as number;
    const isFirst = (back & IS_FIRST) !== 0;
    page[at + HOLDERS] = 0;
    page[at + BACK] = IS_FREE;
    page[at + NEXT] = this.#free;
    this.#free = block;
    this.#count--;
    if (isFirst) this.#set(back & ~IS_FIRST, CHILD, next);
    else this.#set(back, NEXT, next);
    if (next !== 0) this.#set(next, BACK, back);
    return isFirst && next === 0 ? back & ~IS_FIRST : 0;
  }

  parentOf(block: number): number {
    let back = this.#get(block, BACK);
    while ((back & IS_FIRST) === 0) back = this.#get(back, BACK);
    return back & ~IS_FIRST;
  }

  /** The parent if the block is its only child; else 0. */
  parentOfOnly(block: number): number {
    const back = this.#get(block, BACK);
    return (back & IS_FIRST) !== 0 && this.next(block) === 0 ? back & ~IS_FIRST : 0;
  }

  /** First child; 0 when there is none. */
  child(block: number): number {
    return this.#get(block, CHILD);
  }

  /** Next child of the same parent; 0 after the last one. */
  next(block: number): number {
    return this.#get(block, NEXT);
  }

  isFree(block: number): boolean {
    return this.#get(block, BACK) === IS_FREE;
  }

  holders(block: number): number {
    return this.#get(block, HOLDERS);
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
    return this.#get(block, LOCAL);
  }

  localHigh(block: number): number {
    return this.#get(block, LOCAL + 1);
  }

  /** Finds its way again after the words were replaced by those of a snapshot. */
  restore(top: number): void {
    for (let block = 1; block < top; block++) {
      if (this.isFree(block)) {
        this.#set(block, NEXT, this.#free);
        this.#free = block;
      } else {
        this.#table.insert(BLOCK, block, this.low(block), this.high(block));
        this.#count++;
      }
    }
    this.#top = top;
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
