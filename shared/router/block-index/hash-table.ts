import { PAGE_MASK, PAGE_SHIFT, type PagedWords } from './paged-words.ts';

/** What an entry of the table stands for. */
export const BLOCK = 0;
export const SHARED_NAME = 1;
export const PRIVATE_NAME = 2;
export const HOLDER_SET = 3;
export type EntryKind = typeof BLOCK | typeof SHARED_NAME | typeof PRIVATE_NAME | typeof HOLDER_SET;

const KIND_SHIFT = 30;
const NUMBER_BITS = 25;
/** Largest record number. */
export const NUMBER_MAX = (1 << NUMBER_BITS) - 1;
const TAG_MASK = 31 << NUMBER_BITS;

/** Words of a record by kind, as a power of two, and where its key stands in it. */
const RECORD_SHIFTS = [3, 2, 3, 2] as const;
const KEY_OFFSETS = [0, 0, 0, 2] as const;

const SLOT_BITS = 12;
const SLOTS = 1 << SLOT_BITS;
const SLOT_MASK = SLOTS - 1;
const USED_MAX = 0.75 * SLOTS;
/** 65,536 segments hold more entries than there are records. */
const DEPTH_MAX = 16;

interface Segment {
  readonly slots: Int32Array;
  used: number;
  /** Bits of the hash that all entries of the segment have in common. */
  depth: number;
}

/**
 * Record numbers by 64-bit key, four kinds in one table. The table grows a segment at a time (extendible hashing), so no
 * growth takes longer than one split, about 0.1 ms; within a segment it probes linearly. Keys stay in the records:
 *
 *     hash    directory : tag 5 : home 12        of both key halves
 *     slot    kind 2 : tag 5 : number 25         0 = free; the tag spares most looks at records of other keys
 *
 * Keys of names may be held several times (`seek`, `next`), those of blocks are unique (`findBlock`).
 */
export class HashTable {
  readonly #records: readonly PagedWords[];
  #directory: Segment[];
  #shift = 31;
  #segments = 1;
  readonly #spill = new Int32Array(SLOTS);
  // Where `next` goes on.
  #sought: Segment;
  #at = 0;
  #low = 0;
  #high = 0;

  /** @param records by kind */
  constructor(records: readonly [PagedWords, PagedWords, PagedWords, PagedWords]) {
    this.#records = records;
    const first: Segment = { slots: new Int32Array(SLOTS), used: 0, depth: 0 };
    this.#directory = [first, first];
    this.#sought = first;
  }

  /** Number of the block with this key; 0 when there is none. */
  findBlock(low: number, high: number): number {
    const hash = spread(low, high);
    const { slots } = this.#directory[hash >>> this.#shift] as Segment;
    const wanted = (hash << (NUMBER_BITS - SLOT_BITS)) & TAG_MASK;
    const { pages } = this.#records[BLOCK] as PagedWords;
    for (let at = hash & SLOT_MASK; ; at = (at + 1) & SLOT_MASK) {
      const slot = slots[at] as number;
      if (slot === 0) return 0;
      if ((slot & ~NUMBER_MAX) !== wanted) continue;
      const address = (slot & NUMBER_MAX) << 3;
      const page = pages[address >>> PAGE_SHIFT] as Int32Array;
      if (page[address & PAGE_MASK] === low && page[(address & PAGE_MASK) + 1] === high) return slot & NUMBER_MAX;
    }
  }

  /** Begins a search for all entries with this key, whatever they stand for. */
  seek(low: number, high: number): void {
    const hash = spread(low, high);
    this.#sought = this.#directory[hash >>> this.#shift] as Segment;
    this.#at = hash & SLOT_MASK;
    this.#low = low;
    this.#high = high;
  }

  /** The next entry that was sought, see `kindOf` and `numberOf`; 0 after the last one. */
  next(): number {
    const { slots } = this.#sought;
    const tag = (spread(this.#low, this.#high) << (NUMBER_BITS - SLOT_BITS)) & TAG_MASK;
    for (;;) {
      const slot = slots[this.#at] as number;
      if (slot === 0) return 0;
      this.#at = (this.#at + 1) & SLOT_MASK;
      if ((slot & TAG_MASK) !== tag) continue;
      const page = this.#pageOf(slot);
      const key = keyOffset(slot);
      if (page[key] === this.#low && page[key + 1] === this.#high) return slot;
    }
  }

  /** @returns false when there is no room: thousands of names have the same key */
  insert(kind: EntryKind, number: number, low: number, high: number): boolean {
    const hash = spread(low, high);
    let segment = this.#directory[hash >>> this.#shift] as Segment;
    while (segment.used >= USED_MAX) {
      if (!this.#split(segment)) {
        if (segment.used >= SLOTS - 1) return false;
        break;
      }
      segment = this.#directory[hash >>> this.#shift] as Segment;
    }
    put(segment, hash, (kind << KIND_SHIFT) | ((hash << (NUMBER_BITS - SLOT_BITS)) & TAG_MASK) | number);
    return true;
  }

  /** Takes the entry out; its record must still have its key. Nothing happens when it is not there. */
  remove(kind: EntryKind, number: number, low: number, high: number): void {
    const hash = spread(low, high);
    const segment = this.#directory[hash >>> this.#shift] as Segment;
    const { slots } = segment;
    const wanted = (kind << KIND_SHIFT) | ((hash << (NUMBER_BITS - SLOT_BITS)) & TAG_MASK) | number;
    let hole = hash & SLOT_MASK;
    for (; slots[hole] !== wanted; hole = (hole + 1) & SLOT_MASK) if (slots[hole] === 0) return;
    // Entries that were pushed beyond the hole move up, so that there are no tombstones.
    for (let at = (hole + 1) & SLOT_MASK; slots[at] !== 0; at = (at + 1) & SLOT_MASK) {
      const home = this.#hashOf(slots[at] as number) & SLOT_MASK;
      if (((at - home) & SLOT_MASK) < ((at - hole) & SLOT_MASK)) continue;
      slots[hole] = slots[at] as number;
      hole = at;
    }
    slots[hole] = 0;
    segment.used--;
  }

  get bytes(): number {
    return 4 * SLOTS * this.#segments + 8 * this.#directory.length;
  }

  #split(segment: Segment): boolean {
    if (segment.depth === DEPTH_MAX) return false;
    if (segment.depth === 32 - this.#shift) {
      this.#directory = this.#directory.flatMap((each) => [each, each]);
      this.#shift--;
    }
    const bit = 1 << (31 - segment.depth);
    const upper: Segment = { slots: new Int32Array(SLOTS), used: 0, depth: ++segment.depth };
    this.#segments++;
    this.#spill.set(segment.slots);
    segment.slots.fill(0);
    segment.used = 0;
    let sample = 0;
    for (const slot of this.#spill) {
      if (slot === 0) continue;
      const hash = this.#hashOf(slot);
      sample = hash;
      put((hash & bit) === 0 ? segment : upper, hash, slot);
    }
    // The entries' common bits say which stretch of the directory the two share.
    const width = 1 << (32 - this.#shift - segment.depth);
    const first = ((sample | bit) >>> (32 - segment.depth)) * width;
    this.#directory.fill(upper, first, first + width);
    return true;
  }

  #hashOf(slot: number): number {
    const page = this.#pageOf(slot);
    const key = keyOffset(slot);
    return spread(page[key] as number, page[key + 1] as number);
  }

  #pageOf(slot: number): Int32Array {
    const kind = slot >>> KIND_SHIFT;
    const address = (slot & NUMBER_MAX) << (RECORD_SHIFTS[kind] as number);
    return (this.#records[kind] as PagedWords).pages[address >>> PAGE_SHIFT] as Int32Array;
  }
}

export function kindOf(entry: number): EntryKind {
  return (entry >>> KIND_SHIFT) as EntryKind;
}

export function numberOf(entry: number): number {
  return entry & NUMBER_MAX;
}

function keyOffset(slot: number): number {
  const kind = slot >>> KIND_SHIFT;
  const address = (slot & NUMBER_MAX) << (RECORD_SHIFTS[kind] as number);
  return (address & PAGE_MASK) + (KEY_OFFSETS[kind] as number);
}

function put(segment: Segment, hash: number, slot: number): void {
  const { slots } = segment;
  let at = hash & SLOT_MASK;
  while (slots[at] !== 0) at = (at + 1) & SLOT_MASK;
  slots[at] = slot;
  segment.used++;
}

/** Engines may count their hashes up, so the halves are mixed. */
function spread(low: number, high: number): number {
  let hash = Math.imul(low, 0x9e3779b1) ^ Math.imul(high, 0x85ebca77);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return hash ^ (hash >>> 16);
}
