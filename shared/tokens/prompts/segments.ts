import type { EncodeText, Tokenizer } from '../types.ts';

/** Segments of one prompt to encode. Their ids are joined in order. */
export interface Segments {
  readonly texts: readonly string[];
  /** Only for a prompt of one segment. */
  readonly addSpecialTokens: boolean;
  /** Number of tokens after which the rest need not be encoded. */
  readonly enoughTokens: number;
}

/** Work for a lane. */
export interface EncodeJob extends Segments {
  readonly tokenizer: Tokenizer;
}

export interface EncodedSegments {
  readonly ids: Uint32Array<ArrayBuffer>;
  /** Number of tokens of each segment; has fewer entries than segments if there were enough tokens before the end. */
  readonly counts: readonly number[];
}

/** Encodes one segment at a time, so that the caller can pause or stop in between. */
export class SegmentEncoder {
  readonly #encode: EncodeText;
  readonly #segments: Segments;
  readonly #parts: Uint32Array[] = [];
  #total = 0;

  constructor(encode: EncodeText, segments: Segments) {
    this.#encode = encode;
    this.#segments = segments;
  }

  /** Encodes the next segment; returns false when there is nothing left to do. */
  step(): boolean {
    const { texts, addSpecialTokens, enoughTokens } = this.#segments;
    const text = texts[this.#parts.length];
    if (text === undefined || this.#total >= enoughTokens) return false;
    const ids = this.#encode(text, { addSpecialTokens });
    this.#parts.push(ids);
    this.#total += ids.length;
    return true;
  }

  take(): EncodedSegments {
    return { ids: joinIds(this.#parts, this.#total), counts: this.#parts.map((part) => part.length) };
  }
}

/** Joins ids. @param total length of all parts */
export function joinIds(parts: readonly Uint32Array[], total: number): Uint32Array<ArrayBuffer> {
  const ids = new Uint32Array(total);
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return ids;
}
