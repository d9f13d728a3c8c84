import { type MemoryUse, PAGE_MASK, PAGE_SHIFT, type PagedWords } from './memory.ts';

/** Kinds of the records that entries stand for. */
export const BLOCK = 0;
export const SHARED_HASH = 1;
export const PRIVATE_HASH = 2;
export const HOLDER_SET = 3;
export type EntryKind = typeof BLOCK | typeof SHARED_HASH | typeof PRIVATE_HASH | typeof HOLDER_SET;

const NUMBER_BITS = 28;
const KIND_SHIFT = 30;
/** Largest record number. */
export const NUMBER_MAX = (1 << NUMBER_BITS) - 1;

/** Words of a record by kind, as a power of two. `KEY_OFFSETS` says where its key stands in it. */
const RECORD_SHIFTS = [3, 2, 3, 2] as const;
const KEY_OFFSETS = [0, 0, 0, 2] as const;

const SLOT_BITS = 12;
const SLOTS = 1 << SLOT_BITS;
/** A slot is two words. */
const WORD_MASK = 2 * SLOTS - 1;
const USED_MAX = 0.75 * SLOTS;
const SEGMENT_BYTES = 8 * SLOTS;
/** Average number of entries of a segment that was filled from a snapshot. Few segments then exceed the limit. */
const FILLED = 0.7 * SLOTS;
/** Depth at which 262,144 segments hold more entries than memory does records. */
const DEPTH_MAX = 18;

/**
 * Number of entries of two segments together up to which they become one, so that the result is not split again soon.
 */
const MERGED_MAX = 0.5 * SLOTS;

/** Segments that `expect` and `fill` handle in a slice of less than 1 ms. */
const SEGMENTS_AT_ONCE = 16;

interface Segment {
  readonly slots: Int32Array;
  used: number;
  /** Number of bits of the hash that all entries of the segment have in common. */
  depth: number;
}

/**
 * Record numbers by 64-bit key, four kinds in one table. The table grows by one segment at a time (extendible hashing),
 * so no growth takes longer than one split, some 30 us. Within a segment it probes linearly. Keys stay in the records,
 * but the hash stands beside the entry, so that probing, splitting and closing gaps read no record:
 *
 *     hash     directory .. | .. home 12         of both halves of the key
 *     slot     hash 32 | kind 2 : number 28      entry 0 = free
 *
 * Keys of engine hashes and sets may occur several times (`seek`, `next`); those of blocks are unique (`findBlock`).
 */
export class HashTable {
  readonly #records: readonly PagedWords[];
  readonly #use: MemoryUse;
  #directory: Segment[];
  #shift = 31;
  readonly #spill = new Int32Array(2 * SLOTS);
  // Segment and place from which `next` continues.
  #sought: Segment;
  /** Place in the directory from which `merge` continues. */
  #mergeAt = 0;
  #at = 0;
  #hash = 0;
  #low = 0;
  #high = 0;

  /**
   * @param records by kind
   * @param use counts the memory of its segments
   */
  constructor(records: readonly [PagedWords, PagedWords, PagedWords, PagedWords], use: MemoryUse) {
    this.#records = records;
    this.#use = use;
    use.bytes += SEGMENT_BYTES;
    const first: Segment = { slots: new Int32Array(2 * SLOTS), used: 0, depth: 0 };
    this.#directory = [first, first];
    this.#sought = first;
  }

  /** Returns the number of the block with this key; 0 if there is none. */
  findBlock(low: number, high: number): number {
    const hash = spread(low, high);
    const { slots } = this.#directory[hash >>> this.#shift] as Segment;
    for (let at = home(hash); ; at = (at + 2) & WORD_MASK) {
      const entry = slots[at + 1] as number;
      if (entry === 0) return 0;
      if (slots[at] !== hash || entry >>> KIND_SHIFT !== BLOCK) continue;
      const page = (this.#records[BLOCK] as PagedWords).pages[entry >>> (PAGE_SHIFT - RECORD_SHIFTS[BLOCK])];
      const key = (entry << RECORD_SHIFTS[BLOCK]) & PAGE_MASK;
      if ((page as Int32Array)[key] === low && (page as Int32Array)[key + 1] === high) return entry;
    }
  }

  /**
   * Reads the slots of several keys at once, from pair `from` up to pair `to`. Most slots are not in the processor's
   * cache, and in this way it waits for all of them together. @returns a value that keeps the reads from being
   * optimized away
   */
  warm(pairs: Int32Array | Uint32Array, from: number, to: number): number {
    let touched = 0;
    for (let at = 2 * from; at < 2 * to; at += 2) {
      const hash = spread(pairs[at] as number, pairs[at + 1] as number);
      touched |= (this.#directory[hash >>> this.#shift] as Segment).slots[home(hash)] as number;
    }
    return touched;
  }

  /**
   * Prepares an empty table for about `entries` entries, in slices. Then `note` adds them, and `fill` puts them in
   * their places.
   */
  *expect(entries: number): Generator<void, void> {
    let depth = 1;
    while (2 ** depth * FILLED < entries && depth < DEPTH_MAX) depth++;
    const segments = 2 ** depth;
    this.#shift = 32 - depth;
    this.#use.bytes += SEGMENT_BYTES * (segments - 1);
    this.#directory = [];
    for (let at = 0; at < segments; at++) {
      this.#directory.push({ slots: new Int32Array(2 * SLOTS), used: 0, depth });
      if (at % SEGMENTS_AT_ONCE === SEGMENTS_AT_ONCE - 1) yield;
    }
  }

  /** Adds an entry to its segment, without an order. */
  note(kind: EntryKind, number: number, low: number, high: number): void {
    const hash = spread(low, high);
    const segment = this.#directory[hash >>> this.#shift] as Segment;
    if (segment.used === SLOTS - 1) throw new RangeError(`more than ${segment.used} entries in one segment`);
    const at = 2 * segment.used++;
    segment.slots[at] = hash;
    segment.slots[at + 1] = (kind << KIND_SHIFT) | number;
  }

  /**
   * Puts the added entries in their places, in slices: segment by segment, each while it is in the processor's cache.
   */
  *fill(): Generator<void, void> {
    for (const [at, segment] of this.#directory.entries()) {
      const words = 2 * segment.used;
      this.#spill.set(segment.slots.subarray(0, words));
      segment.slots.fill(0, 0, words);
      segment.used = 0;
      putAll(segment, this.#spill, words);
      if (at % SEGMENTS_AT_ONCE === SEGMENTS_AT_ONCE - 1) yield;
    }
  }

  /** Begins a search for all entries with this key, of any kind. */
  seek(low: number, high: number): void {
    this.#hash = spread(low, high);
    this.#sought = this.#directory[this.#hash >>> this.#shift] as Segment;
    this.#at = home(this.#hash);
    this.#low = low;
    this.#high = high;
  }

  /** Returns the next entry of the search, see `kindOf` and `numberOf`; 0 after the last one. */
  next(): number {
    const { slots } = this.#sought;
    for (;;) {
      const at = this.#at;
      const entry = slots[at + 1] as number;
      if (entry === 0) return 0;
      this.#at = (at + 2) & WORD_MASK;
      if (slots[at] === this.#hash && this.#hasKey(entry)) return entry;
    }
  }

  #hasKey(entry: number): boolean {
    const kind = entry >>> KIND_SHIFT;
    const shift = RECORD_SHIFTS[kind] as number;
    const page = (this.#records[kind] as PagedWords).pages[numberOf(entry) >>> (PAGE_SHIFT - shift)] as Int32Array;
    const key = ((entry << shift) & PAGE_MASK) + (KEY_OFFSETS[kind] as number);
    return page[key] === this.#low && page[key + 1] === this.#high;
  }

  /** @returns false if there is no room: thousands of engine hashes have the same key */
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
    put(segment, hash, (kind << KIND_SHIFT) | number);
    return true;
  }

  /** Removes the entry, if it is there. */
  remove(kind: EntryKind, number: number, low: number, high: number): void {
    const hash = spread(low, high);
    const segment = this.#directory[hash >>> this.#shift] as Segment;
    const { slots } = segment;
    const wanted = (kind << KIND_SHIFT) | number;
    let hole = home(hash);
    for (; slots[hole + 1] !== wanted; hole = (hole + 2) & WORD_MASK) if (slots[hole + 1] === 0) return;
    // Entries that were pushed beyond the hole move up, so that there are no tombstones.
    for (let at = (hole + 2) & WORD_MASK; slots[at + 1] !== 0; at = (at + 2) & WORD_MASK) {
      const from = home(slots[at] as number);
      if (((at - from) & WORD_MASK) < ((at - hole) & WORD_MASK)) continue;
      slots[hole] = slots[at] as number;
      slots[hole + 1] = slots[at + 1] as number;
      hole = at;
    }
    slots[hole + 1] = 0;
    segment.used--;
  }

  /**
   * Checks one segment. If it and its other half fit into one, frees the memory of one of them. Takes no longer than a
   * split. Not between `seek` and `next`.
   */
  merge(): void {
    const at = this.#mergeAt % this.#directory.length;
    const segment = this.#directory[at] as Segment;
    // Number of places in the directory that lead to the segment, and the first of them. Its other half is beside them.
    const width = 2 ** (32 - this.#shift - segment.depth);
    const first = at - (at % width);
    this.#mergeAt = first + width;
    const other = this.#directory[first ^ width] as Segment;
    if (segment.depth <= 1 || other.depth !== segment.depth || segment.used + other.used > MERGED_MAX) return;
    for (let slot = 0; slot <= WORD_MASK; slot += 2) {
      if (other.slots[slot + 1] !== 0) put(segment, other.slots[slot] as number, other.slots[slot + 1] as number);
    }
    segment.depth--;
    this.#directory.fill(segment, first & ~width, (first & ~width) + 2 * width);
    this.#sought = segment;
    this.#use.bytes -= SEGMENT_BYTES;
  }

  #split(segment: Segment): boolean {
    if (segment.depth === DEPTH_MAX) return false;
    if (segment.depth === 32 - this.#shift) {
      this.#directory = this.#directory.flatMap((each) => [each, each]);
      this.#shift--;
    }
    const bit = 1 << (31 - segment.depth);
    const upper: Segment = { slots: new Int32Array(2 * SLOTS), used: 0, depth: ++segment.depth };
    this.#use.bytes += SEGMENT_BYTES;
    this.#spill.set(segment.slots);
    segment.slots.fill(0);
    segment.used = 0;
    let sample = 0;
    for (let at = 0; at <= WORD_MASK; at += 2) {
      const entry = this.#spill[at + 1] as number;
      if (entry === 0) continue;
      sample = this.#spill[at] as number;
      put((sample & bit) === 0 ? segment : upper, sample, entry);
    }
    // The entries' common bits tell which range of the directory the two share.
    const width = 1 << (32 - this.#shift - segment.depth);
    const first = ((sample | bit) >>> (32 - segment.depth)) * width;
    this.#directory.fill(upper, first, first + width);
    return true;
  }
}

export function kindOf(entry: number): EntryKind {
  return (entry >>> KIND_SHIFT) as EntryKind;
}

export function numberOf(entry: number): number {
  return entry & NUMBER_MAX;
}

/** Returns the first word of the slot in which an entry belongs. */
function home(hash: number): number {
  return (hash << 1) & WORD_MASK;
}

function put(segment: Segment, hash: number, entry: number): void {
  const { slots } = segment;
  let at = home(hash);
  while (slots[at + 1] !== 0) at = (at + 2) & WORD_MASK;
  slots[at] = hash;
  slots[at + 1] = entry;
  segment.used++;
}

/** Inserts the first `words` of `entries`, two for each entry. */
function putAll(segment: Segment, entries: Int32Array, words: number): void {
  for (let at = 0; at < words; at += 2) put(segment, entries[at] as number, entries[at + 1] as number);
}

/** Mixes the halves, because engines may number their hashes consecutively. */
function spread(low: number, high: number): number {
  let hash = Math.imul(low, 0x9e3779b1) ^ Math.imul(high, 0x85ebca77);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return hash ^ (hash >>> 16);
}

/** A set of 64-bit hashes, used during one event. `clear` costs nothing; the room of the largest event is kept. */
export class U64Set {
  #slots = new Int32Array(3 * 64);
  #mask = 63;
  #size = 0;
  #round = 1;

  clear(): void {
    this.#size = 0;
    this.#round++;
  }

  /** @returns whether the hash is new */
  add(low: number, high: number): boolean {
    if (2 * (this.#size + 1) > this.#mask) this.#grow();
    const at = this.#find(low, high);
    if (this.#slots[at] === this.#round) return false;
    this.#slots[at] = this.#round;
    this.#slots[at + 1] = low;
    this.#slots[at + 2] = high;
    this.#size++;
    return true;
  }

  has(low: number, high: number): boolean {
    return this.#slots[this.#find(low, high)] === this.#round;
  }

  #find(low: number, high: number): number {
    let slot = Math.imul(low ^ Math.imul(high, 0x85ebca77), 0x9e3779b1) >>> 8;
    for (; ; slot++) {
      const at = 3 * (slot & this.#mask);
      if (this.#slots[at] !== this.#round) return at;
      if (this.#slots[at + 1] === low && this.#slots[at + 2] === high) return at;
    }
  }

  #grow(): void {
    const old = this.#slots;
    this.#mask = 2 * this.#mask + 1;
    this.#slots = new Int32Array(3 * (this.#mask + 1));
    this.#size = 0;
    for (let at = 0; at < old.length; at += 3) {
      if (old[at] === this.#round) this.add(old[at + 1] as number, old[at + 2] as number);
    }
  }
}
