import { HashTable, numberOf, PRIVATE_HASH } from './hash-table.ts';
import { type MemoryUse, PAGE_MASK, PAGE_SHIFT, PagedWords } from './memory.ts';

const WORD_SHIFT = 3;
const STAY = 2;
const STAMP = 3;
const BACK = 4;
const NEXT = 5;
const LIST = 6;
const PINS = 7;

/** Value of `LIST`: the record is pinned, so it is on no list. */
const NO_LIST = -1;
/** Value of `STAY`: the record is free. */
const NO_STAY = -1;

/**
 * The last use of each block by each rank (by its stay, `RankStays`), as far as decisions imply. Records of 32 bytes
 * are on lists in the order of use, oldest first. A prompt's blocks are touched from its end to its start, so a parent
 * is always behind its children. So a block at the head of a list has no children left with that rank.
 *
 *     sequence hash 64 | stay | stamp | back | next | list | pins
 */
export class TouchedBlocks {
  readonly #use: MemoryUse = { bytes: 0 };
  readonly #words = new PagedWords(this.#use);
  readonly #table: HashTable;
  /** Head and tail by number of the list. */
  readonly #heads: number[] = [];
  readonly #tails: number[] = [];
  readonly #sizes: number[] = [];
  #free = 0;
  #top = 1;
  #count = 0;

  constructor() {
    // The records have the same form as those of private names.
    this.#table = new HashTable([this.#words, this.#words, this.#words, this.#words], this.#use);
  }

  /** Returns the record of the block, created if there is none. */
  open(stay: number, low: number, high: number): number {
    const found = this.find(stay, low, high);
    if (found !== 0) return found;
    const record = this.#free !== 0 ? this.#free : this.#top;
    if (!this.#table.insert(PRIVATE_HASH, record, low, high ^ mixed(stay))) return 0;
    if (this.#free !== 0) this.#free = this.#get(record, NEXT);
    else this.#words.reach(this.#top++ >>> (PAGE_SHIFT - WORD_SHIFT));
    this.#set(record, 0, low);
    this.#set(record, 1, high ^ mixed(stay));
    this.#set(record, STAY, stay);
    this.#set(record, LIST, NO_LIST);
    this.#set(record, PINS, 0);
    this.#count++;
    return record;
  }

  /** Returns the record of the block; 0 if there is none. */
  find(stay: number, low: number, high: number): number {
    this.#table.seek(low, high ^ mixed(stay));
    for (let entry = this.#table.next(); entry !== 0; entry = this.#table.next()) {
      if (this.stayOf(numberOf(entry)) === stay) return numberOf(entry);
    }
    return 0;
  }

  /** Moves the record to the end of the list, unless it is pinned. */
  touch(record: number, list: number, stamp: number): void {
    this.#set(record, STAMP, stamp);
    this.#unlink(record);
    if (this.#get(record, PINS) > 0) return;
    const tail = this.#tails[list] ?? 0;
    this.#set(record, LIST, list);
    this.#set(record, BACK, tail);
    this.#set(record, NEXT, 0);
    this.#tails[list] = record;
    this.#sizes[list] = this.sizeOf(list) + 1;
    if (tail === 0) this.#heads[list] = record;
    else this.#set(tail, NEXT, record);
  }

  pin(record: number): void {
    this.#set(record, PINS, this.#get(record, PINS) + 1);
    this.#unlink(record);
  }

  /** Removes one pin. `touch` then puts the record back on a list. */
  unpin(record: number): void {
    this.#set(record, PINS, Math.max(0, this.#get(record, PINS) - 1));
  }

  /** Returns the record at the head of the list; 0 if it is empty. */
  oldest(list: number): number {
    return this.#heads[list] ?? 0;
  }

  /** Returns the number of records on the list. */
  sizeOf(list: number): number {
    return this.#sizes[list] ?? 0;
  }

  remove(record: number): void {
    this.#unlink(record);
    this.#table.remove(PRIVATE_HASH, record, this.#get(record, 0), this.#get(record, 1));
    this.#set(record, STAY, NO_STAY);
    this.#set(record, NEXT, this.#free);
    this.#free = record;
    this.#count--;
  }

  /**
   * Removes the records of ended stays, among `count` records from number `from` on.
   * @returns the number to continue from; 0 at the end
   */
  sweep(from: number, count: number, hasEnded: (stay: number) => boolean): number {
    const to = Math.min(from + count, this.#top);
    for (let record = from; record < to; record++) {
      const stay = this.stayOf(record);
      if (stay !== NO_STAY && hasEnded(stay)) this.remove(record);
    }
    return to < this.#top ? to : 0;
  }

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return this.#use.bytes;
  }

  stampOf(record: number): number {
    return this.#get(record, STAMP);
  }

  /** Returns the list of the record; below 0 if it is on no list. */
  listOf(record: number): number {
    return this.#get(record, LIST);
  }

  stayOf(record: number): number {
    return this.#get(record, STAY);
  }

  /** Low half of the block's sequence hash. */
  low(record: number): number {
    return this.#get(record, 0);
  }

  high(record: number): number {
    return this.#get(record, 1) ^ mixed(this.stayOf(record));
  }

  #unlink(record: number): void {
    const list = this.#get(record, LIST);
    if (list === NO_LIST) return;
    this.#sizes[list] = this.sizeOf(list) - 1;
    const back = this.#get(record, BACK);
    const next = this.#get(record, NEXT);
    if (back === 0) this.#heads[list] = next;
    else this.#set(back, NEXT, next);
    if (next === 0) this.#tails[list] = back;
    else this.#set(next, BACK, back);
    this.#set(record, LIST, NO_LIST);
  }

  #get(record: number, field: number): number {
    const page = this.#words.pages[record >>> (PAGE_SHIFT - WORD_SHIFT)] as Int32Array;
    return page[((record << WORD_SHIFT) & PAGE_MASK) + field] as number;
  }

  #set(record: number, field: number, word: number): void {
    const page = this.#words.pages[record >>> (PAGE_SHIFT - WORD_SHIFT)] as Int32Array;
    page[((record << WORD_SHIFT) & PAGE_MASK) + field] = word;
  }
}

/** Mixes a stay, so that ranks that hold the same block have records in different places of the table. */
function mixed(stay: number): number {
  return Math.imul(stay + 1, 0x9e3779b1);
}
