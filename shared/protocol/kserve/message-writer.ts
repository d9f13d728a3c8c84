import type { Int64 } from './messages.ts';

const FIRST_BYTES = 512;
const VARINT_BYTES_MAX = 10;

/**
 * Writes a protobuf message from its end to its start, so that the length of what is nested is known when it is wanted: fields
 * are written last first, and nothing is copied twice.
 */
export class MessageWriter {
  #bytes: Buffer;
  /** Where the first byte lies that is written. */
  #at: number;

  /** @param sizeHint bytes that the message will have, about */
  constructor(sizeHint = FIRST_BYTES) {
    this.#bytes = Buffer.allocUnsafe(sizeHint);
    this.#at = sizeHint;
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#bytes.length - this.#at;
  }

  /** The whole message. */
  finish(): Buffer {
    return this.#bytes.subarray(this.#at);
  }

  tag(field: number, wireType: number): void {
    this.varint(field * 8 + wireType);
  }

  /** Ends a length-delimited field that began when `length` was `before`. */
  prefix(field: number, before: number): void {
    this.varint(this.length - before);
    this.tag(field, 2);
  }

  varint(value: number): void {
    let length = 1;
    for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) length++;
    let at = this.#room(length);
    let rest = value;
    for (; length > 1; length--) {
      this.#bytes[at++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[at] = rest;
  }

  /** 64 bits in two's complement. */
  int64(value: Int64): void {
    if (typeof value === 'number' && value >= 0) {
      this.varint(value);
      return;
    }
    const bytes: number[] = [];
    for (let rest = BigInt.asUintN(64, BigInt(value)); bytes.length < VARINT_BYTES_MAX; rest >>= 7n) {
      const low = Number(rest & 0x7fn);
      if (rest < 0x80n) {
        bytes.push(low);
        break;
      }
      bytes.push(low | 0x80);
    }
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  double(value: number): void {
    const at = this.#room(8);
    this.#bytes.writeDoubleLE(value, at);
  }

  /** Bytes as they are. */
  raw(bytes: Uint8Array): void {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /** A text field; nothing for an empty one, which is what an absent one means. */
  text(field: number, text: string): void {
    if (text !== '') this.textAlways(field, text);
  }

  /** A text field of a oneof or a list, where an empty one counts. */
  textAlways(field: number, text: string): void {
    const length = Buffer.byteLength(text);
    const at = this.#room(length);
    this.#bytes.write(text, at, 'utf8');
    this.varint(length);
    this.tag(field, 2);
  }

  bytes(field: number, bytes: Uint8Array): void {
    this.raw(bytes);
    this.varint(bytes.length);
    this.tag(field, 2);
  }

  /** Makes room before what is written; where it begins. */
  #room(length: number): number {
    if (length > this.#at) this.#grow(length);
    this.#at -= length;
    return this.#at;
  }

  #grow(length: number): void {
    const written = this.finish();
    const bytes = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#bytes.length + length));
    this.#at = bytes.length - written.length;
    bytes.set(written, this.#at);
    this.#bytes = bytes;
  }
}
