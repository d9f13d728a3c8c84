import { type AddedToken, AddedTokenSplitter, type SegmentVisitor } from '../added-tokens.ts';
import { WordMerger } from './merge.ts';
import type { Normalize } from './normalizer.ts';
import type { PreTokenizer } from './pre-tokenizer.ts';
import { type BpeTables, findToken } from './tables.ts';
import { toWellFormed } from './utf8.ts';
import { CACHED_UNITS_MAX, WordCache } from './word-cache.ts';

/** Everything of a tokenizer.json that encoding depends on. */
export interface EncoderSettings {
  readonly tables: BpeTables;
  readonly addedTokens: readonly AddedToken[];
  readonly normalize: Normalize | undefined;
  readonly preTokenizer: PreTokenizer;
  /** A word that is a token as a whole is not merged together from its bytes. */
  readonly ignoresMerges: boolean;
}

const OUTPUT_START = 4096;
/** A larger output buffer is given back after use. */
const OUTPUT_KEPT_MAX = 1 << 20;
const BYTES_START = 1024;
const BYTES_KEPT_MAX = 1 << 16;
/** Places that one cached word may take. */
const WORD_TOKENS_ROOM = 64;

/**
 * Byte-level BPE: added tokens, normalization, words, then merges, with a cache of words seen before. Not reentrant, but
 * synchronous.
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

  /** Ids of `text` between `prefix` and `suffix`. Lone surrogates count as U+FFFD. */
  encode(text: string, prefix: readonly number[], suffix: readonly number[]): Uint32Array {
    this.#count = 0;
    for (const id of prefix) this.token(id);
    if (text !== '') this.#rawSplitter.split(toWellFormed(text), this);
    for (const id of suffix) this.token(id);
    const ids = this.#out.slice(0, this.#count);
    if (this.#out.length > OUTPUT_KEPT_MAX) this.#out = new Uint32Array(OUTPUT_START);
    if (this.#bytes.length > BYTES_KEPT_MAX) this.#bytes = new Uint8Array(BYTES_START);
    this.#merger.trim();
    return ids;
  }

  /** An added token in the text. */
  token(id: number): void {
    this.#reserve(1);
    this.#out[this.#count++] = id;
  }

  /** A stretch of raw text between added tokens. */
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
    const larger = new Uint32Array(Math.max(2 * this.#out.length, this.#count + places));
    larger.set(this.#out);
    this.#out = larger;
  }
}
