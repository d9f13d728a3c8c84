import { grown } from '../../records/index.ts';
import { byteOfChar } from './byte-text.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ESCAPES: Readonly<Record<number, number>> = {
  34: 0x22, // "
  92: 0x5c, // \
  47: 0x2f, // /
  98: 0x08, // b
  102: 0x0c, // f
  110: 0x0a, // n
  114: 0x0d, // r
  116: 0x09, // t
};

/**
 * Reads JSON straight from its UTF-8 bytes, so that the 300,000 strings of a vocabulary never become JavaScript
 * objects. A string is read into `spelled` (bytes of the byte-level alphabet) and `raw` (plain UTF-8); both are reused.
 * Errors are `SyntaxError`s that name the byte.
 */
export class JsonScanner {
  readonly #json: Uint8Array;
  at = 0;
  /** UTF-8 of the string read last: `raw[0 .. rawLength)`. */
  raw = new Uint8Array(1024);
  rawLength = 0;
  /** Bytes that the string read last spells, `spelled[0 .. spelledLength)`; valid only when `isSpelled`. */
  spelled = new Uint8Array(1024);
  spelledLength = 0;
  isSpelled = false;

  constructor(json: Uint8Array) {
    this.#json = json;
  }

  get bytesLeft(): number {
    return this.#json.length - this.at;
  }

  fail(what: string): never {
    throw new SyntaxError(`${what} at byte ${this.at}`);
  }

  /** Returns the next byte that is not white space, without consuming it; -1 at the end. */
  peek(): number {
    const json = this.#json;
    for (let at = this.at; at < json.length; at++) {
      const byte = json[at]!;
      if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) continue;
      this.at = at;
      return byte;
    }
    this.at = json.length;
    return -1;
  }

  /** Consumes `byte` (after white space) if it comes next. */
  take(byte: number): boolean {
    if (this.peek() !== byte) return false;
    this.at++;
    return true;
  }

  expect(byte: number): void {
    if (!this.take(byte)) this.fail(`expected '${String.fromCharCode(byte)}'`);
  }

  /** Reads a non-negative integer. */
  readInteger(): number {
    this.peek();
    const from = this.at;
    let value = 0;
    for (; this.at < this.#json.length; this.at++) {
      const digit = this.#json[this.at]! - 0x30;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
    }
    if (this.at === from || value > 0xffff_ffff) this.fail('expected a token id');
    return value;
  }

  /** Reads a string into `raw` and `spelled`. */
  readString(): void {
    this.expect(QUOTE);
    this.rawLength = 0;
    this.spelledLength = 0;
    this.isSpelled = true;
    for (;;) {
      const codePoint = this.#readCodePoint();
      if (codePoint < 0) return;
      if (this.rawLength + 4 > this.raw.length) {
        this.raw = grown(this.raw);
        this.spelled = grown(this.spelled);
      }
      this.#appendRaw(codePoint);
      const byte = byteOfChar(codePoint);
      if (byte < 0) this.isSpelled = false;
      else this.spelled[this.spelledLength++] = byte;
    }
  }

  /** Returns the text of the string read last. */
  rawText(): string {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this.raw.subarray(0, this.rawLength));
  }

  /** Moves past one value of any kind. */
  skipValue(): void {
    const json = this.#json;
    let depth = 0;
    do {
      const byte = this.peek();
      if (byte < 0) this.fail('unexpected end');
      if (byte === QUOTE) this.#skipString();
      else {
        this.at++;
        if (byte === 0x7b || byte === 0x5b) depth++;
        else if (byte === 0x7d || byte === 0x5d) depth--;
        else if (depth === 0) while (this.at < json.length && isScalarByte(json[this.at]!)) this.at++;
      }
    } while (depth > 0);
    if (depth < 0) this.fail('unexpected closing bracket');
  }

  #skipString(): void {
    const json = this.#json;
    for (let at = this.at + 1; at < json.length; at++) {
      const byte = json[at]!;
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) {
        this.at = at + 1;
        return;
      }
    }
    this.fail('unterminated string');
  }

  /** Returns the next code point of the string that is being read, or -1 at its end. */
  #readCodePoint(): number {
    const json = this.#json;
    const lead = json[this.at++];
    if (lead === undefined || lead < 0x20) this.fail('unterminated string');
    if (lead === QUOTE) return -1;
    if (lead === BACKSLASH) return this.#readEscape();
    if (lead < 0x80) return lead;
    const tail = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    let codePoint = lead & (0x3f >> tail);
    for (let step = 0; step < tail; step++) codePoint = (codePoint << 6) | ((json[this.at++] ?? 0) & 0x3f);
    return codePoint;
  }

  #readEscape(): number {
    const kind = this.#json[this.at++] ?? 0;
    if (kind !== 0x75) return ESCAPES[kind] ?? this.fail('bad escape');
    const high = this.#readHex4();
    const json = this.#json;
    const isPair = (high & 0xfc00) === 0xd800 && json[this.at] === BACKSLASH && json[this.at + 1] === 0x75;
    if (!isPair) return (high & 0xf800) === 0xd800 ? 0xfffd : high;
    this.at += 2;
    const low = this.#readHex4();
    return (low & 0xfc00) === 0xdc00 ? 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff) : 0xfffd;
  }

  #readHex4(): number {
    const digits = String.fromCharCode(...this.#json.subarray(this.at, this.at + 4));
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail('bad escape');
    this.at += 4;
    return Number.parseInt(digits, 16);
  }

  #appendRaw(codePoint: number): void {
    const raw = this.raw;
    let at = this.rawLength;
    if (codePoint < 0x80) raw[at++] = codePoint;
    else {
      if (codePoint < 0x800) raw[at++] = 0xc0 | (codePoint >> 6);
      else {
        if (codePoint < 0x10000) raw[at++] = 0xe0 | (codePoint >> 12);
        else {
          raw[at++] = 0xf0 | (codePoint >> 18);
          raw[at++] = 0x80 | ((codePoint >> 12) & 0x3f);
        }
        raw[at++] = 0x80 | ((codePoint >> 6) & 0x3f);
      }
      raw[at++] = 0x80 | (codePoint & 0x3f);
    }
    this.rawLength = at;
  }
}

function isScalarByte(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x2e ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x45
  );
}
