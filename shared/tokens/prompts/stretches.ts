import type { EncodeText, Tokenizer } from '../types.ts';

/** Stretches of one prompt that are to be encoded. Their ids are joined in order. */
export interface Stretches {
  readonly texts: readonly string[];
  /** Only for a prompt of one stretch. */
  readonly addSpecialTokens: boolean;
  /** As soon as there are so many tokens the rest need not be encoded. */
  readonly enoughTokens: number;
}

/** Work for a lane. */
export interface EncodeJob extends Stretches {
  readonly tokenizer: Tokenizer;
}

export interface EncodedStretches {
  readonly ids: Uint32Array<ArrayBuffer>;
  /** Tokens of each stretch; fewer entries than stretches when there were enough tokens before the end. */
  readonly counts: readonly number[];
}

/** Encodes one stretch at a time, so that whoever does it can pause or stop in between. */
export class StretchEncoder {
  readonly #encode: EncodeText;
  readonly #stretches: Stretches;
  readonly #parts: Uint32Array[] = [];
  #total = 0;

  constructor(encode: EncodeText, stretches: Stretches) {
    this.#encode = encode;
    this.#stretches = stretches;
  }

  /** Encodes the next stretch; false when there is nothing left to do. */
  step(): boolean {
    const { texts, addSpecialTokens, enoughTokens } = this.#stretches;
    const text = texts[this.#parts.length];
    if (text === undefined || this.#total >= enoughTokens) return false;
    const ids = this.#encode(text, { addSpecialTokens });
    this.#parts.push(ids);
    this.#total += ids.length;
    return true;
  }

  take(): EncodedStretches {
    return { ids: joinIds(this.#parts, this.#total), counts: this.#parts.map((part) => part.length) };
  }
}

/** @param total length of all parts */
export function joinIds(parts: readonly Uint32Array[], total: number): Uint32Array<ArrayBuffer> {
  const ids = new Uint32Array(total);
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return ids;
}
