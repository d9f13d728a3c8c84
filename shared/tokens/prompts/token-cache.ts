import type { Part, PartPlace } from '../hashing/known-parts.ts';
import type { Tokenizer } from '../types.ts';

/** Segment of text with its tokens. */
export class CachedSegment implements Part {
  readonly text: string;
  readonly ids: Uint32Array;
  readonly serial: number;
  readonly bytes: number;
  readonly home: Map<string, CachedSegment>;
  place: PartPlace | undefined = undefined;
  isKept = true;
  newer: CachedSegment | undefined = undefined;
  older: CachedSegment | undefined = undefined;
  /** Segment that followed this one last; undefined once it follows another. */
  next: CachedSegment | undefined = undefined;
  /** Segment whose `next` is this one. */
  previous: CachedSegment | undefined = undefined;

  constructor(text: string, ids: Uint32Array, serial: number, bytes: number, home: Map<string, CachedSegment>) {
    this.text = text;
    this.ids = ids;
    this.serial = serial;
    this.bytes = bytes;
    this.home = home;
  }
}

/** Size of an entry besides its text and ids: the map's slot, the entry, the typed array. */
const ENTRY_OVERHEAD_BYTES = 368;

/** Last serial given. Serials are unique across all caches. */
let lastSerial = 0;

/**
 * Tokens of text segments seen before, for all tokenizers together; the least recently used segment is evicted first. A
 * segment is found by its whole text, so a hit is exact. If it follows the same segment as last time, only the texts
 * are compared: that is a hundred times as fast as hashing a text of some thousand letters.
 *
 *     tokenizer ──> text ──> entry ──next──> entry
 *     newest entry ⇄ ... ⇄ oldest entry
 */
export class TokenCache {
  readonly #bytesMax: number;
  readonly #homes = new WeakMap<Tokenizer, Map<string, CachedSegment>>();
  #newest: CachedSegment | undefined;
  #oldest: CachedSegment | undefined;
  #bytes = 0;

  /** @param bytesMax limit of texts, ids and overhead together; above 0 */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Returns the segment of `text`, if it is cached. @param before segment before it in the prompt, from the same
   * tokenizer
   */
  get(tokenizer: Tokenizer, text: string, before?: CachedSegment): CachedSegment | undefined {
    const likely = before?.next;
    const entry = likely?.text === text ? likely : this.#homes.get(tokenizer)?.get(text);
    if (entry === undefined) return undefined;
    if (entry !== likely) chain(before, entry);
    if (entry !== this.#newest) {
      this.#unlink(entry);
      this.#link(entry);
    }
    return entry;
  }

  /**
   * Caches `ids`, which must not change later.
   * @returns the segment; undefined when it is larger than an eighth of the cache, and so is not kept
   */
  set(tokenizer: Tokenizer, text: string, ids: Uint32Array, before?: CachedSegment): CachedSegment | undefined {
    let home = this.#homes.get(tokenizer);
    if (home === undefined) {
      home = new Map();
      this.#homes.set(tokenizer, home);
    }
    const known = home.get(text);
    if (known !== undefined) return known; // encoded twice at the same time
    const isLatin1 = !NOT_LATIN1.test(text);
    const bytes = text.length * (isLatin1 ? 1 : 2) + ids.byteLength + ENTRY_OVERHEAD_BYTES;
    if (bytes > this.#bytesMax / 8) return undefined;
    const own = ownCopy(text, isLatin1);
    const entry = new CachedSegment(own, ids, ++lastSerial, bytes, home);
    home.set(own, entry);
    this.#link(entry);
    chain(before, entry);
    this.#bytes += bytes;
    while (this.#bytes > this.#bytesMax && this.#oldest !== undefined) this.#evict(this.#oldest);
    return entry;
  }

  #evict(entry: CachedSegment): void {
    this.#unlink(entry);
    entry.isKept = false;
    entry.home.delete(entry.text);
    if (entry.previous !== undefined) entry.previous.next = undefined;
    if (entry.next !== undefined) entry.next.previous = undefined;
    entry.previous = undefined;
    entry.next = undefined;
    this.#bytes -= entry.bytes;
  }

  #link(entry: CachedSegment): void {
    entry.older = this.#newest;
    entry.newer = undefined;
    if (this.#newest !== undefined) this.#newest.newer = entry;
    this.#newest = entry;
    this.#oldest ??= entry;
  }

  #unlink(entry: CachedSegment): void {
    if (entry.newer === undefined) this.#newest = entry.older;
    else entry.newer.older = entry.older;
    if (entry.older === undefined) this.#oldest = entry.newer;
    else entry.older.newer = entry.newer;
  }
}

/** Links two entries. An entry is the `next` of at most one other, so a cached entry keeps no evicted one alive. */
function chain(previous: CachedSegment | undefined, entry: CachedSegment): void {
  if (previous?.isKept !== true) return;
  if (previous.next !== undefined) previous.next.previous = undefined;
  if (entry.previous !== undefined) entry.previous.next = undefined;
  previous.next = entry;
  entry.previous = previous;
}

const NOT_LATIN1 = /[^\0-\xff]/;

/**
 * Copies a text: a slice would keep its whole string alive, here a prompt of which perhaps one segment is still cached.
 */
function ownCopy(text: string, isLatin1: boolean): string {
  const encoding = isLatin1 ? 'latin1' : 'utf16le';
  return Buffer.from(text, encoding).toString(encoding);
}
