import { invariant } from '../errors/index.ts';
import { type HashTable, HOLDER_SET, kindOf, NUMBER_MAX, numberOf } from './hash-table.ts';
import { PAGE_MASK, PAGE_SHIFT, PAGE_WORDS, type PagedWords } from './memory.ts';

/** Shift of a holding's tiers by the way in which the block was hashed. The lowest bits are those by Stator's hash. */
export const BY_SHARED_HASH = 4;
export const BY_PRIVATE_HASH = 8;
export const TIER_BITS = 15;

/** Value above every tier's number: not held. */
export const NOT_HELD = 4;

/** Returns one bit for each tier, for all ways in which the block is hashed. */
export function tiersByAnyHash(tiers: number): number {
  return (tiers | (tiers >>> BY_SHARED_HASH) | (tiers >>> BY_PRIVATE_HASH)) & TIER_BITS;
}

/** Returns the fastest one among `tiers`; `NOT_HELD` if there is none. */
export function fastest(tiers: number): number {
  const bits = tiersByAnyHash(tiers);
  return bits === 0 ? NOT_HELD : 31 - Math.clz32(bits & -bits);
}

export function hasTier(tiers: number, tier: number): boolean {
  return (tiersByAnyHash(tiers) & (1 << tier)) !== 0;
}

/**
 * Flag of a word that names the holders of a block:
 *
 *     0                                      no holder
 *     1 : recent 1 : incarnation 18 : tiers 12    one holder
 *     0 : recent 1 : - : set 25              several; the number of a set
 *
 * Tiers are four bits for each way in which the engine may have named the block: by Stator's hash, by the name that its
 * holders share, or by a name of its own. `recent` belongs to the block, not to its holders.
 */
export const ALONE = 1 << 31;
export const RECENT = 1 << 30;
export const INCARNATION_SHIFT = 12;
export const TIERS_MASK = (1 << INCARNATION_SHIFT) - 1;
export const HOLDER_MASK = RECENT - 1;

/** Sets checked in a slice of less than 1 ms. */
const RESTORED_AT_ONCE = 1 << 14;

const GRANULE_SHIFT = 2;
const HEADER = 4;
const LENGTH_BITS = 20;
const LENGTH_MASK = (1 << LENGTH_BITS) - 1;
/** Sizes in which sets are made, in granules of 16 bytes. */
const SIZES = [0, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536].concat([
  2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768,
]);
/** Bound of the holders of one block. */
export const HOLDERS_MAX = PAGE_WORDS - HEADER;

/**
 * Sets of holders. Equal sets are one record, for all blocks that have them, so that many workers that hold the same
 * prefix cost little. A change makes another set. Records never cross pages:
 *
 *     size class 12 : length 20 | references | hash 64 | holders, ascending by incarnation
 *
 * The hash is the exclusive or of the holders' own hashes, so that a change does not read the others. A free record has
 * length 0, and the number of the next free one in place of its references.
 */
export class HolderSets {
  readonly #words: PagedWords;
  readonly #table: HashTable;
  readonly #free = new Int32Array(SIZES.length);
  readonly #granulesMax: number;
  #top = 1;
  #members = new Int32Array(64);

  constructor(words: PagedWords, table: HashTable, granulesMax: number) {
    this.#words = words;
    this.#table = table;
    this.#granulesMax = Math.min(granulesMax, NUMBER_MAX);
    words.reach(0);
  }

  /** Whether stores must stop. The rest of the room is for the sets that removals make. */
  get isNearlyFull(): boolean {
    return this.#top > 0.75 * this.#granulesMax;
  }

  /** Granules in use or on free lists. */
  get top(): number {
    return this.#top;
  }

  /** Returns the tiers that `incarnation` holds; 0 if it holds nothing. */
  tiersOf(holders: number, incarnation: number): number {
    if (holders < 0) return (holders & HOLDER_MASK) >>> INCARNATION_SHIFT === incarnation ? holders & TIERS_MASK : 0;
    const set = holders & HOLDER_MASK;
    if (set === 0) return 0;
    const page = this.#pageOf(set);
    const at = this.#find(page, offsetOf(set), incarnation);
    const member = page[at] as number;
    return at < this.#end(page, offsetOf(set)) && member >>> INCARNATION_SHIFT === incarnation
      ? member & TIERS_MASK
      : 0;
  }

  /** Returns the number of holders. */
  countOf(holders: number): number {
    if (holders < 0) return 1;
    const set = holders & HOLDER_MASK;
    return set === 0 ? 0 : (this.#pageOf(set)[offsetOf(set)] as number) & LENGTH_MASK;
  }

  /** Returns the page with the members of a set. They begin at `membersAt`. */
  pageOf(holders: number): Int32Array {
    return this.#pageOf(holders & HOLDER_MASK);
  }

  membersAt(holders: number): number {
    return offsetOf(holders & HOLDER_MASK) + HEADER;
  }

  /**
   * Returns the word for a block that had `holders` and of which `incarnation` now holds `tiers`, 0 = none. Moves the
   * block's reference from the old set to the new one. Leaves out flags other than `ALONE`.
   */
  replace(holders: number, incarnation: number, tiers: number): number {
    const member = (incarnation << INCARNATION_SHIFT) | tiers;
    if ((holders & ~RECENT) === 0) return tiers === 0 ? 0 : ALONE | member;
    if (holders < 0) {
      const alone = holders & HOLDER_MASK;
      if (alone >>> INCARNATION_SHIFT === incarnation) return tiers === 0 ? 0 : ALONE | member;
      if (tiers === 0) return ALONE | alone;
      this.#members[0] = Math.min(alone, member);
      this.#members[1] = Math.max(alone, member);
      return this.#intern(2, hashLow(alone) ^ hashLow(member), hashHigh(alone) ^ hashHigh(member));
    }
    return this.#replaceIn(holders & HOLDER_MASK, incarnation, member);
  }

  /** Returns the set `holders` without the incarnations that no longer have a rank. Moves the block's reference. */
  living(holders: number, ranks: Int32Array): number {
    const set = holders & HOLDER_MASK;
    const page = this.#pageOf(set);
    const end = this.#end(page, offsetOf(set));
    this.#reserve(end - offsetOf(set));
    let length = 0;
    let low = 0;
    let high = 0;
    for (let at = offsetOf(set) + HEADER; at < end; at++) {
      const member = page[at] as number;
      if ((ranks[member >>> INCARNATION_SHIFT] as number) < 0) continue;
      this.#members[length++] = member;
      low ^= hashLow(member);
      high ^= hashHigh(member);
    }
    const left = this.#ofMembers(length, low, high);
    this.release(set);
    return left;
  }

  /** Records that one block more has these holders. */
  retain(holders: number): void {
    if (holders < 0) return;
    const set = holders & HOLDER_MASK;
    if (set !== 0) this.#addReferences(set, 1);
  }

  /** Records that one block less has these holders. */
  release(holders: number): void {
    if (holders < 0) return;
    const set = holders & HOLDER_MASK;
    if (set === 0 || this.#addReferences(set, -1) > 0) return;
    const page = this.#writable(set);
    const at = offsetOf(set);
    this.#table.remove(HOLDER_SET, set, page[at + 2] as number, page[at + 3] as number);
    const size = (page[at] as number) >>> LENGTH_BITS;
    page[at] = size << LENGTH_BITS;
    page[at + 1] = this.#free[size] as number;
    this.#free[size] = set;
  }

  /** Rebuilds its lists, in slices, after the words were replaced by those of a snapshot. */
  *restore(top: number): Generator<void, void> {
    this.#top = top;
    let looked = 0;
    for (let set = 1; set < top; looked++) {
      if (looked % RESTORED_AT_ONCE === RESTORED_AT_ONCE - 1) yield;
      const page = this.#pageOf(set);
      const at = offsetOf(set);
      const size = (page[at] as number) >>> LENGTH_BITS;
      if (size === 0) {
        set = ((set >>> (PAGE_SHIFT - GRANULE_SHIFT)) + 1) << (PAGE_SHIFT - GRANULE_SHIFT);
        continue;
      }
      if (((page[at] as number) & LENGTH_MASK) === 0) {
        page[at + 1] = this.#free[size] as number;
        this.#free[size] = set;
      } else this.#table.note(HOLDER_SET, set, page[at + 2] as number, page[at + 3] as number);
      set += SIZES[size] as number;
    }
  }

  #replaceIn(set: number, incarnation: number, member: number): number {
    const page = this.#pageOf(set);
    const base = offsetOf(set);
    const end = this.#end(page, base);
    const at = this.#find(page, base, incarnation);
    const old = at < end && (page[at] as number) >>> INCARNATION_SHIFT === incarnation ? (page[at] as number) : 0;
    const next = (member & TIERS_MASK) === 0 ? 0 : member;
    if (old === next) return set;
    this.#reserve(end - base);
    const before = at - base - HEADER;
    const after = end - at - (old === 0 ? 0 : 1);
    const members = this.#members;
    let length = 0;
    for (; length < before; length++) members[length] = page[base + HEADER + length] as number;
    if (next !== 0) members[length++] = next;
    for (let from = end - after; from < end; from++) members[length++] = page[from] as number;
    let low = page[base + 2] as number;
    let high = page[base + 3] as number;
    if (old !== 0) {
      low ^= hashLow(old);
      high ^= hashHigh(old);
    }
    if (next !== 0) {
      low ^= hashLow(next);
      high ^= hashHigh(next);
    }
    const word = this.#ofMembers(length, low, high);
    this.release(set);
    return word;
  }

  #ofMembers(length: number, low: number, high: number): number {
    if (length === 0) return 0;
    return length === 1 ? ALONE | (this.#members[0] as number) : this.#intern(length, low, high);
  }

  /** Returns the set of the first `length` of `#members`, with one more reference. */
  #intern(length: number, low: number, high: number): number {
    this.#table.seek(low, high);
    for (let entry = this.#table.next(); entry !== 0; entry = this.#table.next()) {
      if (kindOf(entry) !== HOLDER_SET || !this.#isEqual(numberOf(entry), length)) continue;
      this.#addReferences(numberOf(entry), 1);
      return numberOf(entry);
    }
    const set = this.#allocate(length);
    const page = this.#writable(set);
    const at = offsetOf(set);
    page[at] = ((page[at] as number) & ~LENGTH_MASK) | length;
    page[at + 1] = 1;
    page[at + 2] = low;
    page[at + 3] = high;
    for (let each = 0; each < length; each++) page[at + HEADER + each] = this.#members[each] as number;
    this.#table.insert(HOLDER_SET, set, low, high);
    return set;
  }

  #isEqual(set: number, length: number): boolean {
    const page = this.#pageOf(set);
    const at = offsetOf(set);
    if (((page[at] as number) & LENGTH_MASK) !== length) return false;
    for (let each = 0; each < length; each++) if (page[at + HEADER + each] !== this.#members[each]) return false;
    return true;
  }

  #allocate(length: number): number {
    const granules = (HEADER + length + 3) >>> GRANULE_SHIFT;
    let size = 1;
    while ((SIZES[size] as number) < granules) size++;
    const free = this.#free[size] as number;
    if (free !== 0) {
      this.#free[size] = this.#pageOf(free)[offsetOf(free) + 1] as number;
      return free;
    }
    const room = SIZES[size] as number;
    const pageGranules = PAGE_WORDS >>> GRANULE_SHIFT;
    const left = pageGranules - (this.#top & (pageGranules - 1));
    if (room > left) this.#top += left;
    if (this.#top + room > this.#granulesMax) throw new RangeError('no room for another set of holders');
    const set = this.#top;
    this.#top += room;
    this.#words.reach(set >>> (PAGE_SHIFT - GRANULE_SHIFT));
    this.#writable(set)[offsetOf(set)] = size << LENGTH_BITS;
    return set;
  }

  #reserve(length: number): void {
    if (length > this.#members.length) this.#members = new Int32Array(2 * length);
  }

  #addReferences(set: number, by: number): number {
    const page = this.#writable(set);
    const at = offsetOf(set) + 1;
    const references = (page[at] as number) + by;
    invariant(references >= 0, 'a set of holders is let go of as often as it was taken');
    page[at] = references;
    return references;
  }

  /** Returns where the incarnation stands in the set, or would stand. */
  #find(page: Int32Array, base: number, incarnation: number): number {
    let from = base + HEADER;
    let to = this.#end(page, base);
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((page[middle] as number) >>> INCARNATION_SHIFT < incarnation) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #end(page: Int32Array, base: number): number {
    return base + HEADER + ((page[base] as number) & LENGTH_MASK);
  }

  #pageOf(set: number): Int32Array {
    return this.#words.pages[set >>> (PAGE_SHIFT - GRANULE_SHIFT)] as Int32Array;
  }

  #writable(set: number): Int32Array {
    return this.#words.writable(set >>> (PAGE_SHIFT - GRANULE_SHIFT));
  }
}

function offsetOf(set: number): number {
  return (set << GRANULE_SHIFT) & PAGE_MASK;
}

function hashLow(member: number): number {
  const mixed = Math.imul(member ^ (member >>> 15), 0x85ebca6b);
  return Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
}

function hashHigh(member: number): number {
  const mixed = Math.imul(member ^ (member >>> 16), 0x21f0aaad);
  return Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
}
