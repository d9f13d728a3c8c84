import { FIXED32, FIXED64, LENGTH, type MessageReader, undecodable, VARINT } from './message-reader.ts';
import type { MessageWriter } from './message-writer.ts';
import type { FramedBytes, NumberArray, TensorContents } from './messages.ts';

/* Reader and writer of the fields of InferTensorContents, packed or one by one, as arrays in the machine's own form. */

/**
 * Array that elements are read into. An element of 64 bits takes two places of 32 bits: bigints would take many times
 * as long.
 */
type Places = Uint8Array | Int32Array | Uint32Array | Float32Array | Float64Array;

/** Encoding of the elements of one repeated field on the wire. */
interface FieldKind {
  readonly wireType: number;
  readonly placesEach: 1 | 2;
  readonly make: (places: number) => Places;
  /** Reads one element into `places[at]`. */
  readonly put: (reader: MessageReader, places: Places, at: number) => void;
  /** Returns the elements in the machine's own form. */
  readonly all: (places: Places) => NumberArray;
}

function kind(wireType: number, make: (places: number) => Places, read: (reader: MessageReader) => number): FieldKind {
  return {
    wireType,
    placesEach: 1,
    make,
    put: (reader, places, at) => {
      places[at] = read(reader);
    },
    all: (places) => places,
  };
}

function wideKind(all: (buffer: ArrayBufferLike) => NumberArray): FieldKind {
  return {
    wireType: VARINT,
    placesEach: 2,
    make: (places) => new Uint32Array(places),
    put: (reader, places, at) => {
      reader.words(places, at);
    },
    all: ({ buffer }) => all(buffer),
  };
}

const BOOL = kind(
  VARINT,
  (length) => new Uint8Array(length),
  (reader) => (reader.bool() ? 1 : 0),
);
const INT = kind(VARINT, (length) => new Int32Array(length), low32);
const INT64 = wideKind((buffer) => new BigInt64Array(buffer));
const UINT = kind(VARINT, (length) => new Uint32Array(length), low32);
const UINT64 = wideKind((buffer) => new BigUint64Array(buffer));
const FP32 = kind(
  FIXED32,
  (length) => new Float32Array(length),
  (reader) => reader.bytes.readFloatLE(reader.take(4)),
);
const FP64 = kind(
  FIXED64,
  (length) => new Float64Array(length),
  (reader) => reader.double(),
);

/** Reads the low 32 bits of a varint; the array that receives them gives them a sign. */
function low32(reader: MessageReader): number {
  const { bytes, end } = reader;
  let value = 0;
  for (let shift = 0, { at } = reader; ; shift += 7) {
    if (at >= end) throw undecodable('buffer underflow');
    if (shift === 70) throw undecodable('invalid varint');
    const byte = bytes[at++]!;
    if (shift < 32) value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      reader.at = at;
      return value;
    }
  }
}

const FIRST_LENGTH = 16;

/** Elements of one repeated field, collected as they arrive. */
class Elements {
  readonly #kind: FieldKind;
  #places: Places;
  /** Number of filled places. */
  #length = 0;

  constructor(fieldKind: FieldKind) {
    this.#kind = fieldKind;
    this.#places = fieldKind.make(0);
  }

  get all(): NumberArray {
    const { length } = this.#places;
    return this.#kind.all(length === this.#length ? this.#places : this.#places.slice(0, this.#length));
  }

  /** Reads the field of `tag`; returns false if its wire type does not belong to such a list. */
  take(tag: number, reader: MessageReader): boolean {
    const wireType = tag & 7;
    if (wireType === LENGTH) reader.within(() => this.#packed(reader));
    else if (wireType === this.#kind.wireType) this.#one(reader);
    else return false;
    return true;
  }

  #one(reader: MessageReader): void {
    const { placesEach, put } = this.#kind;
    if (this.#length === this.#places.length) this.#reserve(Math.max(FIRST_LENGTH, this.#length));
    put(reader, this.#places, this.#length);
    this.#length += placesEach;
  }

  #packed(reader: MessageReader): void {
    if (!reader.hasMore) return;
    const { wireType, placesEach, put } = this.#kind;
    if (wireType !== VARINT) {
      this.#fixed(reader);
      return;
    }
    this.#reserve(countVarints(reader) * placesEach);
    const places = this.#places;
    for (; reader.hasMore; this.#length += placesEach) put(reader, places, this.#length);
  }

  /** Copies elements, which lie on the wire as in memory: all machines that Node has builds for are little-endian. */
  #fixed(reader: MessageReader): void {
    const bytes = reader.end - reader.at;
    const elementBytes = this.#places.BYTES_PER_ELEMENT;
    if (bytes % elementBytes !== 0) throw undecodable('buffer underflow');
    this.#reserve(bytes / elementBytes);
    const { buffer, byteOffset } = this.#places;
    const place = new Uint8Array(buffer, byteOffset + this.#length * elementBytes, bytes);
    place.set(reader.bytes.subarray(reader.take(bytes), reader.at));
    this.#length += bytes / elementBytes;
  }

  /** Reserves `more` places. */
  #reserve(more: number): void {
    if (this.#length + more <= this.#places.length) return;
    const larger = this.#kind.make(this.#length === 0 ? more : Math.max(this.#length + more, this.#length * 2));
    larger.set(this.#places.subarray(0, this.#length));
    this.#places = larger;
  }
}

/** Counts varints: each has exactly one byte below 0x80, its last. */
function countVarints({ bytes, at, end }: MessageReader): number {
  let count = 0;
  for (let index = at; index < end; index++) if (bytes[index]! < 0x80) count++;
  return count;
}

const PREFIX_BYTES = 4;

/** Byte strings, each after its length. */
class ByteStrings {
  #framed = Buffer.alloc(0);
  #length = 0;
  #count = 0;

  get all(): FramedBytes {
    return { count: this.#count, framed: this.#framed.subarray(0, this.#length) };
  }

  /** Reads the next one. */
  take(reader: MessageReader): void {
    const bytes = reader.pass();
    const length = this.#length + PREFIX_BYTES + bytes;
    if (length > this.#framed.length) {
      const larger = Buffer.allocUnsafe(this.#count === 0 ? length : Math.max(length, this.#length * 2));
      larger.set(this.#framed.subarray(0, this.#length));
      this.#framed = larger;
    }
    this.#framed.writeUInt32LE(bytes, this.#length);
    if (bytes > 0) reader.bytes.copy(this.#framed, this.#length + PREFIX_BYTES, reader.at - bytes, reader.at);
    this.#length = length;
    this.#count++;
  }
}

/** Kinds and names by field number. */
const KINDS = [undefined, BOOL, INT, INT64, UINT, UINT64, FP32, FP64] as const;
const NAMES = [undefined, 'bool', 'int', 'int64', 'uint', 'uint64', 'fp32', 'fp64'] as const;
const BYTES_FIELD = 8;

/** Reads an `InferTensorContents`, which may come in several parts. */
export class ContentsReader {
  readonly #lists: (Elements | undefined)[] = [];
  #strings: ByteStrings | undefined;

  /** Reads one part. */
  read(reader: MessageReader): void {
    while (reader.hasMore) {
      const tag = reader.tag();
      if (tag === ((BYTES_FIELD << 3) | LENGTH)) {
        this.#strings ??= new ByteStrings();
        this.#strings.take(reader);
      } else if (this.#listOf(tag >>> 3)?.take(tag, reader) !== true) reader.skip(tag);
    }
  }

  #listOf(field: number): Elements | undefined {
    const kind = KINDS[field];
    if (kind !== undefined) this.#lists[field] ??= new Elements(kind);
    return this.#lists[field];
  }

  get all(): TensorContents {
    const contents: Record<string, unknown> = {};
    for (const [field, list] of this.#lists.entries()) {
      if (list !== undefined) contents[NAMES[field]!] = list.all; // each list has a name
    }
    if (this.#strings !== undefined) contents.bytes = this.#strings.all;
    return contents;
  }
}

/** Writes the fields of `contents`, last first. */
export function writeContents(writer: MessageWriter, contents: TensorContents): void {
  if (contents.bytes !== undefined) writeStrings(writer, contents.bytes);
  for (let field = NAMES.length - 1; field >= 1; field--) {
    const list = contents[NAMES[field]!]; // from 1 on each has a name
    if (list !== undefined && list.length > 0) writeNumbers(writer, field, list);
  }
}

function writeNumbers(writer: MessageWriter, field: number, list: NumberArray): void {
  if (list instanceof Float32Array || list instanceof Float64Array) {
    writer.bytes(field, new Uint8Array(list.buffer, list.byteOffset, list.byteLength));
    return;
  }
  const before = writer.length;
  if (list instanceof BigInt64Array || list instanceof BigUint64Array) {
    const words = new Uint32Array(list.buffer, list.byteOffset, list.length * 2);
    for (let at = words.length - 2; at >= 0; at -= 2) writer.words(words[at]!, words[at + 1]!);
  } else {
    for (let index = list.length - 1; index >= 0; index--) writer.int(list[index]!);
  }
  writer.prefix(field, before);
}

function writeStrings(writer: MessageWriter, { count, framed }: FramedBytes): void {
  if (count === 0) return;
  const view = Buffer.from(framed.buffer, framed.byteOffset, framed.length);
  const starts = new Uint32Array(count);
  for (let index = 0, at = 0; index < count; index++) {
    starts[index] = at;
    at += PREFIX_BYTES + view.readUInt32LE(at);
  }
  for (let index = count - 1; index >= 0; index--) {
    const at = starts[index]!; // counted above
    writer.bytes(BYTES_FIELD, view.subarray(at + PREFIX_BYTES, at + PREFIX_BYTES + view.readUInt32LE(at)));
  }
}
