import type { Int64 } from './messages.ts';

const FIRST_BYTES = 512;
/** Size from which contents are sent as a piece of their own instead of being copied. */
export const PIECE_BYTES_MIN = 64 * 1024;
const GRPC_PREFIX_BYTES = 5;

/**
 * Writes a protobuf message from its end to its start, so that the length of nested data is known when it is needed.
 * Fields are written last first. Nothing is copied twice; large contents are not copied at all.
 */
export class MessageWriter {
  #bytes: Buffer;
  /** Position of the first byte written. */
  #at: number;
  /** Pieces after `#bytes`. */
  readonly #pieces: Buffer[] = [];
  #pieceBytes = 0;

  /** @param sizeHint approximate bytes of the message */
  constructor(sizeHint = FIRST_BYTES) {
    this.#bytes = Buffer.allocUnsafe(sizeHint);
    this.#at = sizeHint;
  }

  /** Number of bytes written so far. */
  get length(): number {
    return this.#pieceBytes + this.#bytes.length - this.#at;
  }

  /** Returns the whole message in pieces, after its gRPC prefix. */
  finish(): readonly Buffer[] {
    const { length } = this;
    const at = this.#room(GRPC_PREFIX_BYTES);
    this.#bytes[at] = 0;
    this.#bytes.writeUInt32BE(length, at + 1);
    return [this.#bytes.subarray(this.#at), ...this.#pieces];
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

  /** Writes 64 bits in two's complement. */
  int64(value: Int64): void {
    if (typeof value === 'number' && value >= 0) {
      this.varint(value);
      return;
    }
    const all = BigInt.asUintN(64, BigInt(value));
    this.words(Number(all & 0xffff_ffffn), Number(all >> 32n));
  }

  /** Writes a whole number of at most 32 bits, signed or unsigned. */
  int(value: number): void {
    if (value >= 0) this.varint(value);
    else this.words(value, -1);
  }

  /** Writes the halves of 64 bits. */
  words(low: number, high: number): void {
    if (high === 0) {
      this.varint(low >>> 0);
      return;
    }
    let length = 5;
    for (let rest = high >>> 3; rest !== 0; rest >>>= 7) length++;
    let at = this.#room(length);
    const bytes = this.#bytes;
    for (let shift = 0; shift < 28; shift += 7) bytes[at++] = ((low >>> shift) & 0x7f) | 0x80;
    bytes[at] = (low >>> 28) | ((high & 7) << 4);
    for (let rest = high >>> 3; rest !== 0; rest >>>= 7) {
      bytes[at++]! |= 0x80;
      bytes[at] = rest & 0x7f;
    }
  }

  double(value: number): void {
    const at = this.#room(8);
    this.#bytes.writeDoubleLE(value, at);
  }

  /** Writes bytes as they are. From `PIECE_BYTES_MIN` on they must not change before the message has been sent. */
  raw(bytes: Uint8Array): void {
    if (bytes.length >= PIECE_BYTES_MIN) {
      if (this.#at < this.#bytes.length) this.#put(this.#bytes.subarray(this.#at));
      this.#put(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
      this.#bytes = this.#bytes.subarray(0, this.#at);
      return;
    }
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /** Writes a text field; writes nothing for an empty text, which an absent field means. */
  text(field: number, text: string): void {
    if (text !== '') this.textAlways(field, text);
  }

  /** Writes a text field of a oneof or a list, where an empty text counts. */
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

  #put(piece: Buffer): void {
    this.#pieces.unshift(piece);
    this.#pieceBytes += piece.length;
  }

  /** Reserves bytes before those written, and returns where they begin. */
  #room(length: number): number {
    if (length > this.#at) this.#grow(length);
    this.#at -= length;
    return this.#at;
  }

  #grow(length: number): void {
    const written = this.#bytes.subarray(this.#at);
    const bytes = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#bytes.length + length));
    this.#at = bytes.length - written.length;
    bytes.set(written, this.#at);
    this.#bytes = bytes;
  }
}
