import { grown } from '../../records/index.ts';
import { type AddedToken, AddedTokenSplitter, type SegmentVisitor } from '../added-tokens.ts';
import { beginSteps } from '../patterns/steps.ts';
import { toWellFormed } from './byte-text.ts';
import type { Normalize, PreTokenizer } from './encoding-rules.ts';
import { WordMerger } from './merge.ts';
import { type BpeTables, findToken } from './tables.ts';

/**
 * Length up to which words are cached, in UTF-16 units: longer words are rare and not worth the space. Must fit 6 bits.
 */
const CACHED_UNITS_MAX = 40;
/** Number of tokens up to which words are cached. Must fit 6 bits. */
const CACHED_TOKENS_MAX = 63;
const SLOTS = 0x20000;
const WORDS_MAX = 0x14000; // 62 % of the slots
const UNITS_MAX = 0x80000;
const TOKENS_MAX = 0x40000;

/**
 * Caches the tokens of words without a string or an object for each word. Holds at most 82,000 words (about 6 MB,
 * allocated as it fills). When one of the arenas is full the cache is cleared, which costs less than keeping an order
 * of use.
 *
 *     slots[4 * slot]   hash of the word (0 = empty) | unit start, length | token start, count | first token
 */
class WordCache {
  readonly #slots = new Int32Array(4 * SLOTS);
  readonly #units = new Uint16Array(UNITS_MAX);
  readonly #tokens = new Int32Array(TOKENS_MAX);
  #words = 0;
  #unitsUsed = 0;
  #tokensUsed = 0;
  /** Hash of the word that `read` did not find. */
  #missedHash = 0;

  /**
   * Copies the tokens of the word `text[at .. end)` to `out[to ..]`, where 63 places must be free, and returns their
   * number; returns 0 when the word is unknown. All steps stand in one function because every word goes through it: if
   * they were split, V8 would inline them inconsistently.
   */
  read(text: string, at: number, end: number, out: Uint32Array, to: number): number {
    let hash = 0x811c9dc5;
    for (let from = at; from < end; from++) hash = Math.imul(hash ^ text.charCodeAt(from), 0x01000193);
    hash ^= hash >>> 15;
    if (hash === 0) hash = 1;
    const slots = this.#slots;
    const units = this.#units;
    for (let slot = (hash & (SLOTS - 1)) << 2; ; slot = (slot + 4) & (4 * SLOTS - 1)) {
      const found = slots[slot]!;
      if (found === 0) {
        this.#missedHash = hash;
        return 0;
      }
      const place = slots[slot + 1]!;
      if (found !== hash || (place & 63) !== end - at) continue;
      const shift = (place >>> 6) - at;
      let from = at;
      while (from < end && units[shift + from] === text.charCodeAt(from)) from++;
      if (from < end) continue;
      const tokens = slots[slot + 2]!;
      out[to] = slots[slot + 3]!;
      const count = tokens & 63;
      if (count > 1) this.#copyRest(tokens >>> 6, count, out, to);
      return count;
    }
  }

  /** Stores `ids[0 .. count)` as the tokens of the word `text[at .. end)`, which `read` has just not found. */
  write(text: string, at: number, end: number, ids: Int32Array, count: number): void {
    const hash = this.#missedHash;
    const length = end - at;
    if (length > CACHED_UNITS_MAX || count > CACHED_TOKENS_MAX) return;
    const isFull =
      this.#words === WORDS_MAX || this.#unitsUsed + length > UNITS_MAX || this.#tokensUsed + count > TOKENS_MAX;
    if (isFull) this.#clear();
    const slots = this.#slots;
    let slot = (hash & (SLOTS - 1)) << 2;
    while (slots[slot] !== 0) slot = (slot + 4) & (4 * SLOTS - 1);
    slots[slot] = hash;
    slots[slot + 1] = (this.#unitsUsed << 6) | length;
    slots[slot + 2] = (this.#tokensUsed << 6) | count;
    slots[slot + 3] = ids[0]!;
    for (let from = at; from < end; from++) this.#units[this.#unitsUsed++] = text.charCodeAt(from);
    if (count > 1) for (let from = 0; from < count; from++) this.#tokens[this.#tokensUsed++] = ids[from]!;
    this.#words++;
  }

  #copyRest(start: number, count: number, out: Uint32Array, to: number): void {
    for (let step = 1; step < count; step++) out[to + step] = this.#tokens[start + step]!;
  }

  #clear(): void {
    this.#slots.fill(0);
    this.#words = 0;
    this.#unitsUsed = 0;
    this.#tokensUsed = 0;
  }
}

/** Everything in a tokenizer.json that encoding depends on. */
export interface EncoderSettings {
  readonly tables: BpeTables;
  readonly addedTokens: readonly AddedToken[];
  readonly normalize: Normalize | undefined;
  readonly preTokenizer: PreTokenizer;
  /** Whether a word that is a token as a whole is not merged from its bytes. */
  readonly ignoresMerges: boolean;
}

const OUTPUT_START = 4096;
/** Size up to which the output buffer is kept after use. */
const OUTPUT_KEPT_MAX = 1 << 20;
const BYTES_START = 1024;
const BYTES_KEPT_MAX = 1 << 16;
/** Places that one cached word may take. */
const WORD_TOKENS_ROOM = 64;

/**
 * Byte-level BPE encoder: added tokens, normalization, words, then merges, with a cache of words seen before.
 * Synchronous and not reentrant.
 */
export class BpeEncoder implements SegmentVisitor {
  readonly #settings: EncoderSettings;
  readonly #merger: WordMerger;
  readonly #cache = new WordCache();
  readonly #rawSplitter: AddedTokenSplitter;
  readonly #normalizedSplitter: AddedTokenSplitter;
  readonly #normalizedVisitor: SegmentVisitor;
  #out = new Uint32Array(OUTPUT_START);
  #count = 0;
  #bytes = new Uint8Array(BYTES_START);
  readonly #utf8 = new TextEncoder();

  constructor(settings: EncoderSettings) {
    this.#settings = settings;
    this.#merger = new WordMerger(settings.tables);
    const { addedTokens, normalize } = settings;
    this.#rawSplitter = new AddedTokenSplitter(addedTokens.filter((token) => !token.normalized));
    const normalized = addedTokens.filter((token) => token.normalized);
    this.#normalizedSplitter = new AddedTokenSplitter(
      normalized.map((token) => ({ ...token, content: normalize?.(token.content) ?? token.content })),
    );
    this.#normalizedVisitor = { token: (id) => this.token(id), text: (segment) => this.#encodePieces(segment, 0) };
  }

  /** Returns the ids of `text` between `prefix` and `suffix`. Lone surrogates count as U+FFFD. */
  encode(text: string, prefix: readonly number[], suffix: readonly number[]): Uint32Array {
    this.#count = 0;
    beginSteps(text.length);
    for (const id of prefix) this.token(id);
    if (text !== '') this.#rawSplitter.split(toWellFormed(text), this);
    for (const id of suffix) this.token(id);
    const ids = this.#out.slice(0, this.#count);
    if (this.#out.length > OUTPUT_KEPT_MAX) this.#out = new Uint32Array(OUTPUT_START);
    if (this.#bytes.length > BYTES_KEPT_MAX) this.#bytes = new Uint8Array(BYTES_START);
    this.#merger.trim();
    return ids;
  }

  /** Appends an added token found in the text. */
  token(id: number): void {
    this.#reserve(1);
    this.#out[this.#count++] = id;
  }

  /** Encodes a segment of raw text between added tokens. */
  text(segment: string): void {
    const normalized = this.#settings.normalize?.(segment) ?? segment;
    this.#normalizedSplitter.split(normalized, this.#normalizedVisitor);
  }

  #encodePieces(piece: string, step: number): void {
    const { splitters, scanWord } = this.#settings.preTokenizer;
    const split = splitters[step];
    if (split !== undefined) {
      for (const part of split(piece)) this.#encodePieces(part, step + 1);
      return;
    }
    if (scanWord === undefined) {
      this.#encodeWord(piece, 0, piece.length);
      return;
    }
    for (let at = 0; at < piece.length; ) {
      const end = scanWord(piece, at);
      this.#encodeWord(piece, at, end);
      at = end;
    }
  }

  #encodeWord(text: string, at: number, end: number): void {
    this.#reserve(WORD_TOKENS_ROOM);
    if (end - at > CACHED_UNITS_MAX) {
      this.#append(this.#merge(text, at, end));
      return;
    }
    const known = this.#cache.read(text, at, end, this.#out, this.#count);
    if (known > 0) {
      this.#count += known;
      return;
    }
    const count = this.#merge(text, at, end);
    this.#cache.write(text, at, end, this.#merger.ids, count);
    this.#append(count);
  }

  /** Leaves the word's tokens in the merger and returns their number. */
  #merge(text: string, at: number, end: number): number {
    const length = this.#writeBytes(text, at, end);
    if (this.#settings.ignoresMerges) {
      const whole = findToken(this.#settings.tables, this.#bytes, 0, length);
      if (whole >= 0) {
        this.#merger.ids[0] = whole;
        return 1;
      }
    }
    return this.#merger.merge(this.#bytes, length);
  }

  #writeBytes(text: string, at: number, end: number): number {
    if ((end - at) * 3 > this.#bytes.length) this.#bytes = new Uint8Array((end - at) * 3);
    const bytes = this.#bytes;
    for (let from = at; from < end; from++) {
      const unit = text.charCodeAt(from);
      if (unit >= 0x80) return this.#utf8.encodeInto(text.slice(at, end), bytes).written;
      bytes[from - at] = unit;
    }
    return end - at;
  }

  #append(count: number): void {
    this.#reserve(count);
    const { ids } = this.#merger;
    for (let at = 0; at < count; at++) this.#out[this.#count++] = ids[at]!;
  }

  #reserve(places: number): void {
    if (this.#count + places <= this.#out.length) return;
    this.#out = grown(this.#out, Math.max(2 * this.#out.length, this.#count + places));
  }
}
