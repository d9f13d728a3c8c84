import { isUtf8 } from 'node:buffer';
import { LIMITS, overLimit, type ServeError, workerError } from '../../errors/index.ts';
import type { Int64 } from './messages.ts';

/** Wire types of protobuf. */
export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH = 2;
export const FIXED32 = 5;
const GROUP_START = 3;
const GROUP_END = 4;

/** Limit of nested unknown groups; known messages have four levels. */
const GROUP_DEPTH_MAX = 64;
/** Largest tag: field numbers have 29 bits. */
const TAG_MAX = 0xffff_ffff;

/**
 * Reads one protobuf message from `bytes[at .. end)`. It allocates nothing by a stated length; texts and bytes are
 * views of the message, which is never written again.
 * @throws ServeError `invalid_value` for bytes that are not a message
 */
export class MessageReader {
  readonly bytes: Buffer;
  at: number;
  end: number;

  constructor(bytes: Buffer, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  get hasMore(): boolean {
    return this.at < this.end;
  }

  /** Returns number and wire type of the next field, as `number << 3 | type`. */
  tag(): number {
    const tag = this.uint();
    if (tag > TAG_MAX || tag >>> 3 === 0) throw undecodable(`invalid tag value: ${tag >>> 3}`);
    return tag;
  }

  /** Runs `read` within a length-delimited field. */
  within<T>(read: (reader: this) => T): T {
    const outer = this.end;
    this.end = this.#span();
    const value = read(this);
    this.at = this.end;
    this.end = outer;
    return value;
  }

  /** Reads a varint as a number; exact up to 2^53. */
  uint(): number {
    const first = this.#byte();
    if (first < 0x80) return first;
    let value = first & 0x7f;
    let scale = 0x80;
    for (let read = 1; read < 10; read++) {
      const byte = this.#byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
    throw undecodable('invalid varint');
  }

  /** Reads all 64 bits of a varint, the low half into `places[at]`, the high half after it. */
  words(places: Uint8Array | Int32Array | Uint32Array | Float32Array | Float64Array, at: number): void {
    let [low, high] = [0, 0];
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#byte();
      const bits = byte & 0x7f;
      if (shift < 32) low |= bits << shift;
      if (shift > 28) high |= bits << (shift - 32);
      else if (shift === 28) high = bits >>> 4;
      if (byte >= 0x80) continue;
      places[at] = low;
      places[at + 1] = high;
      return;
    }
    throw undecodable('invalid varint');
  }

  int64(): Int64 {
    return plain(BigInt.asIntN(64, this.#big()));
  }

  uint64(): Int64 {
    return plain(this.#big());
  }

  bool(): boolean {
    const first = this.bytes[this.at]!; // read before it is known to exist
    if (first >= 0x80 || this.at >= this.end) return this.#big() !== 0n;
    this.at++;
    return first !== 0;
  }

  double(): number {
    return this.bytes.readDoubleLE(this.take(8));
  }

  text(): string {
    const end = this.#span();
    const { bytes, at } = this;
    this.at = end;
    if (end === at) return '';
    if (!isUtf8(bytes.subarray(at, end))) throw undecodable('invalid string value: data is not UTF-8 encoded');
    return bytes.toString('utf8', at, end);
  }

  /** Returns a view of a length-delimited field. */
  slice(): Buffer {
    const length = this.pass();
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** Skips a length-delimited field and returns its length. */
  pass(): number {
    const end = this.#span();
    const length = end - this.at;
    this.at = end;
    return length;
  }

  /** Skips `length` bytes and returns where they begin. */
  take(length: number): number {
    const { at } = this;
    if (length > this.end - at) throw undecodable('buffer underflow');
    this.at = at + length;
    return at;
  }

  /** Skips a field that is unknown or has the wrong wire type. */
  skip(tag: number, depth = 0): void {
    switch (tag & 7) {
      case VARINT:
        this.uint();
        return;
      case FIXED64:
        this.take(8);
        return;
      case LENGTH:
        this.at = this.#span();
        return;
      case FIXED32:
        this.take(4);
        return;
      case GROUP_START:
        this.#skipGroup(tag >>> 3, depth);
        return;
      case GROUP_END:
        throw undecodable('unexpected end group tag');
      default:
        throw undecodable(`invalid wire type value: ${tag & 7}`);
    }
  }

  #skipGroup(field: number, depth: number): void {
    if (depth === GROUP_DEPTH_MAX) throw undecodable('recursion limit reached');
    for (;;) {
      const tag = this.tag();
      if ((tag & 7) !== GROUP_END) this.skip(tag, depth + 1);
      else if (tag >>> 3 === field) return;
      else throw undecodable('unexpected end group tag');
    }
  }

  /** Returns all 64 bits of a varint. */
  #big(): bigint {
    const { at } = this;
    const value = this.uint();
    return Number.isSafeInteger(value) ? BigInt(value) : BigInt.asUintN(64, this.#bigFrom(at));
  }

  #bigFrom(start: number): bigint {
    let value = 0n;
    for (let at = start, shift = 0n; at < this.at; at++, shift += 7n) {
      value |= BigInt(this.bytes[at]! & 0x7f) << shift;
    }
    return value;
  }

  #byte(): number {
    if (this.at >= this.end) throw undecodable('buffer underflow');
    return this.bytes[this.at++]!;
  }

  /** Returns where the length-delimited field ends that begins here. */
  #span(): number {
    const length = this.uint();
    if (length > this.end - this.at) throw undecodable('buffer underflow');
    return this.at + length;
  }
}

function plain(value: bigint): Int64 {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** Creates the error for bytes that are not a message. */
export function undecodable(reason: string): ServeError {
  return workerError('InvalidArgument', `failed to decode Protobuf message: ${reason}`);
}

/** Refuses an entry beyond the limit of a list. @throws ServeError `invalid_value` */
export function requireRoom(list: string, count: number): void {
  const { max } = LIMITS.infer_entries;
  if (count > max) throw overLimit('infer_entries', `${list} has more than ${max} entries`, { param: list });
}
