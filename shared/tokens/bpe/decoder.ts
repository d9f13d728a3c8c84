import { TextDecoder } from 'node:util';
import type { Detokenizer } from '../types.ts';
import { utf8Text } from './byte-text.ts';
import { type BpeTables, TOKEN_PRESENT, TOKEN_SPECIAL } from './tables.ts';

/** Marks a token whose text depends on the tokens around it. */
const IN_CONTEXT = null;

/** Decodes ids by table. A token's text is decoded when the token is first seen, and then shared by every stream. */
export class ByteDecoder {
  readonly tables: BpeTables;
  /**
   * Text by id: a string for a token of whole characters, `IN_CONTEXT` for one with broken characters, a hole for one
   * not yet seen.
   */
  readonly #texts: (string | typeof IN_CONTEXT | undefined)[];

  constructor(tables: BpeTables) {
    this.tables = tables;
    this.#texts = new Array(tables.flags.length);
  }

  decode(ids: ArrayLike<number>, skipsSpecial: boolean): string {
    const { starts, lengths, blob } = this.tables;
    let total = 0;
    for (let at = 0; at < ids.length; at++) if (this.isShown(ids[at]!, skipsSpecial)) total += lengths[ids[at]!]!;
    const bytes = new Uint8Array(total);
    let length = 0;
    for (let at = 0; at < ids.length; at++) {
      const id = ids[at]!;
      if (!this.isShown(id, skipsSpecial)) continue;
      const start = starts[id]!;
      bytes.set(blob.subarray(start, start + lengths[id]!), length);
      length += lengths[id]!;
    }
    return utf8Text(bytes, 0, length);
  }

  isShown(id: number, skipsSpecial: boolean): boolean {
    const flags = this.tables.flags[id]; // undefined beyond the table
    return flags !== undefined && (flags & TOKEN_PRESENT) !== 0 && !(skipsSpecial && (flags & TOKEN_SPECIAL) !== 0);
  }

  /** Returns the text of a token by itself, or null when it holds a part of a character. */
  wholeText(id: number): string | null {
    const known = this.#texts[id];
    if (known !== undefined) return known;
    const decoded = this.bytesOf(id).toString('utf8');
    const text = decoded.includes('\ufffd') ? IN_CONTEXT : decoded;
    this.#texts[id] = text;
    return text;
  }

  bytesOf(id: number): Buffer {
    const { blob, starts, lengths } = this.tables;
    return Buffer.from(blob.buffer, blob.byteOffset + starts[id]!, lengths[id]!);
  }
}

/** Number of ids at the end of a prompt that may hold a part of a character. */
const PROMPT_TAIL_IDS = 4;

/**
 * Incremental detokenizer of one stream.
 *
 * | Bytes held | Token | Text |
 * |---|---|---|
 * | none | whole characters | the token's, from the table |
 * | part of a character | any | the complete characters of held + token; the unfinished end is held |
 */
export class ByteDetokenizer implements Detokenizer {
  readonly #decoder: ByteDecoder;
  readonly #skipsSpecial: boolean;
  /** Decoder that holds the unfinished end; most streams never need one. */
  #utf8: TextDecoder | undefined;
  #isBroken = false;

  constructor(decoder: ByteDecoder, promptTail: ArrayLike<number>, skipsSpecial: boolean) {
    this.#decoder = decoder;
    this.#skipsSpecial = skipsSpecial;
    // A prompt may end inside a character, and the first generated tokens then complete it.
    for (let at = Math.max(0, promptTail.length - PROMPT_TAIL_IDS); at < promptTail.length; at++) {
      this.push(promptTail[at]!);
    }
  }

  push(id: number): string {
    if (!this.#decoder.isShown(id, this.#skipsSpecial)) return '';
    const text = this.#decoder.wholeText(id);
    if (text !== IN_CONTEXT && !this.#isBroken) return text;
    this.#isBroken = text === IN_CONTEXT;
    this.#utf8 ??= new TextDecoder('utf-8', { ignoreBOM: true });
    return this.#utf8.decode(this.#decoder.bytesOf(id), { stream: true });
  }

  flush(): string {
    this.#isBroken = false;
    return this.#utf8?.decode() ?? '';
  }
}
