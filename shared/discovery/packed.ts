/** Longest text that is packed, in bytes. */
const TEXT_BYTES_MAX = 2 ** 20;
const HEX_DIGITS_MAX = 32;

/**
 * Writes values one after the other into a growing buffer: whole numbers in as few bytes as they need (seven bits per
 * byte, the lowest first), texts and bytes after their length.
 */
export class PackedWriter {
  #bytes: Buffer;
  #length = 0;

  constructor(expectedBytes = 256) {
    this.#bytes = Buffer.allocUnsafe(expectedBytes);
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  /** Writes a whole number from 0 to 2^53 - 1. */
  count(value: number): void {
    this.#reserve(8);
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#bytes[this.#length++] = (rest % 0x80) | 0x80;
    this.#bytes[this.#length++] = rest;
  }

  text(value: string): void {
    const byteLength = Buffer.byteLength(value);
    this.count(byteLength);
    this.#reserve(byteLength);
    this.#length += this.#bytes.write(value, this.#length);
  }

  /** Writes lower-case hexadecimal digits, two per byte, as many as there are. */
  hex(digits: string): void {
    this.count(digits.length);
    const even = digits.length % 2 === 0 ? digits : `0${digits}`;
    this.#reserve(even.length / 2);
    this.#length += this.#bytes.write(even, this.#length, 'hex');
  }

  bytes(value: Uint8Array): void {
    this.count(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  /** Returns the written bytes; later writing does not change them. */
  finish(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#length));
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#length + more));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

/**
 * Reads what `PackedWriter` wrote. Every method throws `RangeError` if the bytes end early or a value is out of bounds.
 */
export class PackedReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  byte(): number {
    const value = this.#bytes[this.#at++];
    if (value === undefined) throw new RangeError(`ends after ${this.#bytes.length} bytes`);
    return value;
  }

  /** @param max largest allowed value */
  count(max: number = Number.MAX_SAFE_INTEGER): number {
    let value = 0;
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (value > max) throw new RangeError(`${value} at byte ${this.#at} is over ${max}`);
      if (byte < 0x80) return value;
    }
  }

  text(bytesMax = TEXT_BYTES_MAX): string {
    const from = this.#skip(this.count(bytesMax));
    return this.#bytes.toString('utf8', from, this.#at);
  }

  hex(): string {
    const digits = this.count(HEX_DIGITS_MAX);
    const from = this.#skip(Math.ceil(digits / 2));
    const even = this.#bytes.toString('hex', from, this.#at);
    return digits % 2 === 0 ? even : even.slice(1);
  }

  /** Returns a view of the bytes, not a copy. */
  bytes(bytesMax = TEXT_BYTES_MAX): Buffer {
    const from = this.#skip(this.count(bytesMax));
    return this.#bytes.subarray(from, this.#at);
  }

  /** @returns where the skipped bytes begin */
  #skip(length: number): number {
    const from = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new RangeError(`ends after ${this.#bytes.length} bytes`);
    return from;
  }
}
