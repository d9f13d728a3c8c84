import { FIXED32, FIXED64, LENGTH, type MessageReader, undecodable, VARINT } from './message-reader.ts';
import type { MessageWriter } from './message-writer.ts';
import { NO_CONTENTS, type TensorContents } from './messages.ts';

/* The fields of InferTensorContents, packed and one by one, to and from arrays of the machine's own form. */

type NumberArray = Uint8Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array | Float32Array | Float64Array;

/** How the elements of one repeated field lie on the wire. */
interface FieldKind<A extends NumberArray> {
  readonly wireType: number;
  readonly make: (length: number) => A;
  /** Reads one element. */
  readonly read: (reader: MessageReader) => A[number];
}

function kind<A extends NumberArray>(
  wireType: number,
  make: (length: number) => A,
  read: (reader: MessageReader) => A[number],
): FieldKind<A> {
  return { wireType, make, read };
}

const BOOL = kind(
  VARINT,
  (length) => new Uint8Array(length),
  (reader) => (reader.uint() === 0 ? 0 : 1),
);
const INT = kind(VARINT, (length) => new Int32Array(length), low32);
const INT64 = kind(
  VARINT,
  (length) => new BigInt64Array(length),
  (reader) => BigInt(reader.int64()),
);
const UINT = kind(VARINT, (length) => new Uint32Array(length), low32);
const UINT64 = kind(
  VARINT,
  (length) => new BigUint64Array(length),
  (reader) => BigInt(reader.uint64()),
);
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

/** The low 32 bits of a varint; the arrays that it is put into give it a sign. */
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

/** The elements of one repeated field, as they come. */
class Elements<A extends NumberArray> {
  readonly #kind: FieldKind<A>;
  #array: A;
  #length = 0;

  constructor(fieldKind: FieldKind<A>) {
    this.#kind = fieldKind;
    this.#array = fieldKind.make(0);
  }

  get all(): A {
    const { length } = this.#array;
    return (length === this.#length ? this.#array : this.#array.slice(0, this.#length)) as A;
  }

  /** Reads the field of `tag`; false where it has another wire type than such a list. */
  take(tag: number, reader: MessageReader): boolean {
    const wireType = tag & 7;
    if (wireType === LENGTH) reader.within(() => this.#packed(reader));
    else if (wireType === this.#kind.wireType) this.#one(reader);
    else return false;
    return true;
  }

  #one(reader: MessageReader): void {
    if (this.#length === this.#array.length) this.#reserve(Math.max(FIRST_LENGTH, this.#length));
    this.#array[this.#length++] = this.#kind.read(reader);
  }

  #packed(reader: MessageReader): void {
    const { wireType, read } = this.#kind;
    if (wireType !== VARINT) {
      this.#fixed(reader);
      return;
    }
    this.#reserve(countVarints(reader));
    const array = this.#array;
    while (reader.hasMore) array[this.#length++] = read(reader);
  }

  /** Elements lie as the machine has them: all machines that Node has builds for are little-endian. */
  #fixed(reader: MessageReader): void {
    const bytes = reader.end - reader.at;
    const elementBytes = this.#array.BYTES_PER_ELEMENT;
    if (bytes % elementBytes !== 0) throw undecodable('buffer underflow');
    this.#reserve(bytes / elementBytes);
    const { buffer, byteOffset } = this.#array;
    const place = new Uint8Array(buffer, byteOffset + this.#length * elementBytes, bytes);
    place.set(reader.bytes.subarray(reader.take(bytes), reader.at));
    this.#length += bytes / elementBytes;
  }

  /** Makes room for `more` elements. */
  #reserve(more: number): void {
    if (this.#length + more <= this.#array.length) return;
    const larger = this.#kind.make(this.#length === 0 ? more : Math.max(this.#length + more, this.#length * 2));
    larger.set(this.#array.subarray(0, this.#length) as never); // of one kind
    this.#array = larger;
  }
}

/** Each varint has one byte below 0x80: its last. */
function countVarints({ bytes, at, end }: MessageReader): number {
  let count = 0;
  for (let index = at; index < end; index++) if (bytes[index]! < 0x80) count++;
  return count;
}

const PREFIX_BYTES = 4;

/** Byte strings, each behind its length. */
class ByteStrings {
  #framed = Buffer.alloc(0);
  #length = 0;
  #count = 0;

  get all(): TensorContents['bytes'] {
    return { count: this.#count, framed: this.#framed.subarray(0, this.#length) };
  }

  add(bytes: Buffer): void {
    const length = this.#length + PREFIX_BYTES + bytes.length;
    if (length > this.#framed.length) {
      const larger = Buffer.allocUnsafe(this.#count === 0 ? length : Math.max(length, this.#length * 2));
      larger.set(this.#framed.subarray(0, this.#length));
      this.#framed = larger;
    }
    this.#framed.writeUInt32LE(bytes.length, this.#length);
    this.#framed.set(bytes, this.#length + PREFIX_BYTES);
    this.#length = length;
    this.#count++;
  }
}

const KINDS = [undefined, BOOL, INT, INT64, UINT, UINT64, FP32, FP64] as const;
const FAMILIES = [undefined, 'bool', 'int', 'int64', 'uint', 'uint64', 'fp32', 'fp64'] as const;
const BYTES_FIELD = 8;

/** Reads an `InferTensorContents`, which may come in several parts. */
export class ContentsReader {
  readonly #lists: (Elements<NumberArray> | undefined)[] = [];
  #strings: ByteStrings | undefined;

  /** Reads one part. */
  read(reader: MessageReader): void {
    while (reader.hasMore) {
      const tag = reader.tag();
      if (tag === ((BYTES_FIELD << 3) | LENGTH)) {
        this.#strings ??= new ByteStrings();
        this.#strings.add(reader.slice());
      } else if (this.#listOf(tag >>> 3)?.take(tag, reader) !== true) reader.skip(tag);
    }
  }

  #listOf(field: number): Elements<NumberArray> | undefined {
    const kind = KINDS[field] as FieldKind<NumberArray> | undefined;
    if (kind !== undefined) this.#lists[field] ??= new Elements(kind);
    return this.#lists[field];
  }

  get all(): TensorContents {
    const contents: Record<string, unknown> = { ...NO_CONTENTS };
    for (const [field, list] of this.#lists.entries()) {
      if (list !== undefined) contents[FAMILIES[field]!] = list.all; // a list only stands where a family does
    }
    if (this.#strings !== undefined) contents.bytes = this.#strings.all;
    return contents as unknown as TensorContents; // every family stands in NO_CONTENTS
  }
}

/** Writes the fields of `contents`, last first. */
export function writeContents(writer: MessageWriter, contents: TensorContents): void {
  writeStrings(writer, contents.bytes);
  writeFixed(writer, 7, contents.fp64);
  writeFixed(writer, 6, contents.fp32);
  writeVarints(writer, 5, contents.uint64);
  writeVarints(writer, 4, contents.uint);
  writeVarints(writer, 3, contents.int64);
  writeVarints(writer, 2, contents.int);
  writeVarints(writer, 1, contents.bool);
}

function writeVarints(writer: MessageWriter, field: number, list: NumberArray): void {
  if (list.length === 0) return;
  const before = writer.length;
  for (let index = list.length - 1; index >= 0; index--) writer.int64(list[index]!);
  writer.prefix(field, before);
}

function writeFixed(writer: MessageWriter, field: number, list: Float32Array | Float64Array): void {
  if (list.length === 0) return;
  writer.bytes(field, new Uint8Array(list.buffer, list.byteOffset, list.byteLength));
}

function writeStrings(writer: MessageWriter, { count, framed }: TensorContents['bytes']): void {
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
