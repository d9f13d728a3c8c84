import { assertNever, type ServeError, workerError } from '../../errors/index.ts';
import { type DataType, type FramedBytes, type Int64, NO_CONTENTS, type TensorContents } from './messages.ts';

/* Elements of tensors between the two forms that messages have for them, typed lists and raw bytes, and their counts. */

const U64_MAX = 2n ** 64n - 1n;
const PREFIX_BYTES = 4;

/**
 * Elements that a shape stands for; none of its dimensions means one.
 * @throws ServeError `invalid_value` for a negative dimension, and a product beyond 64 bits before a zero comes
 */
export function elementsOf(shape: readonly Int64[]): bigint {
  let elements = 1n;
  for (const dimension of shape) {
    if (dimension < 0) throw invalid(`Shape contains negative dimension: ${dimension}`);
    elements *= BigInt(dimension);
    if (elements > U64_MAX) throw invalid('Overflow occurred while calculating element count');
  }
  return elements;
}

/**
 * Checks the raw contents of a tensor against its shape. Nothing is allocated.
 * @throws ServeError `invalid_value`
 */
export function checkRaw(name: string, { bytes }: DataType, shape: readonly Int64[], raw: Uint8Array): void {
  const expected = elementsOf(shape);
  if (bytes > 0 && raw.length % bytes !== 0) throw invalid(`Raw input length must be a multiple of ${bytes}`);
  const got = bytes > 0 ? raw.length / bytes : countFramed(name, raw);
  if (BigInt(got) === expected) return;
  const counts = `expected ${expected} elements, got ${got} elements`;
  throw invalid(`Raw input element count for '${name}' does not match expected size, ${counts}`);
}

/** Byte strings in raw contents. @throws ServeError `invalid_value` where their lengths do not add up */
export function countFramed(name: string, raw: Uint8Array): number {
  const view = viewOf(raw);
  let count = 0;
  for (let at = 0; at < raw.length; count++) {
    const left = raw.length - at;
    if (left < PREFIX_BYTES) {
      throw invalid(`Invalid length-prefixed BYTES input for '${name}', extra bytes at the end`);
    }
    const length = view.getUint32(at, true);
    if (length > left - PREFIX_BYTES) {
      throw invalid(`Invalid length-prefixed BYTES input for '${name}', length exceeds raw input size`);
    }
    at += PREFIX_BYTES + length;
  }
  return count;
}

/**
 * What is wrong with the count of a tensor's elements, as Dynamo words it; undefined when it is as its shape says.
 * @param elements that it has
 */
export function countFault(index: number, shape: readonly Int64[], elements: number): string | undefined {
  const negative = shape.findIndex((dimension) => dimension < 0);
  const implied = saturatedProduct(negative < 0 ? shape : shape.slice(0, negative));
  const field = `tensors[${index}].shape`;
  const wildcard = negative < 0 ? '' : `${field}: only -1 is allowed as a wildcard dimension`;
  const count =
    implied === BigInt(elements) ? '' : `${field}: shape implies ${implied} elements but data has ${elements}`;
  return wildcard + count || undefined;
}

function saturatedProduct(shape: readonly Int64[]): bigint {
  let elements = 1n;
  for (const dimension of shape) {
    elements *= BigInt(dimension);
    if (elements > U64_MAX) elements = U64_MAX;
  }
  return elements;
}

/** Elements in the field of `contents` that a type has; one in another field is none. */
export function typedCount({ family }: DataType, contents: TensorContents): number {
  if (family === undefined) return 0;
  return family === 'bytes' ? contents.bytes.count : contents[family].length;
}

/** Types that travel widened. Their arrays cut what is put into them to its low bits. */
const NARROW: ReadonlyMap<string, typeof Int8Array | typeof Int16Array | typeof Uint8Array | typeof Uint16Array> =
  new Map(Object.entries({ INT8: Int8Array, INT16: Int16Array, UINT8: Uint8Array, UINT16: Uint16Array }));

/** Typed contents as raw bytes. All machines that Node has builds for are little-endian, as raw contents are. */
export function rawOf({ family, wire }: DataType, contents: TensorContents): Uint8Array {
  if (family === undefined) return NO_CONTENTS.bytes.framed;
  if (family === 'bytes') return contents.bytes.framed;
  const list = contents[family];
  const Narrow = NARROW.get(wire);
  const { buffer, byteOffset, byteLength } = Narrow === undefined ? list : new Narrow(list as Int32Array | Uint32Array);
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/**
 * Raw bytes as typed contents, which half precision has none of.
 * @param count of byte strings in `raw`
 */
export function typedOf({ family, wire }: DataType, raw: Uint8Array, count: number): TensorContents {
  if (family === undefined) return NO_CONTENTS;
  if (family === 'bytes') return { ...NO_CONTENTS, bytes: { count, framed: raw } };
  const { buffer } = Uint8Array.from(raw); // views of messages begin anywhere
  return { ...NO_CONTENTS, [family]: listOf(family, wire, buffer) };
}

function listOf(family: Exclude<keyof TensorContents, 'bytes'>, wire: string, buffer: ArrayBuffer) {
  const Narrow = NARROW.get(wire);
  switch (family) {
    case 'bool':
      return truthOf(new Uint8Array(buffer));
    case 'int':
      return Narrow === undefined ? new Int32Array(buffer) : Int32Array.from(new Narrow(buffer));
    case 'uint':
      return Narrow === undefined ? new Uint32Array(buffer) : Uint32Array.from(new Narrow(buffer));
    case 'int64':
      return new BigInt64Array(buffer);
    case 'uint64':
      return new BigUint64Array(buffer);
    case 'fp32':
      return new Float32Array(buffer);
    case 'fp64':
      return new Float64Array(buffer);
    default:
      return assertNever(family);
  }
}

/** Bytes that are 0 or 1: any other is true, too. */
export function truthOf(bytes: Uint8Array): Uint8Array {
  return bytes.some((byte) => byte > 1) ? bytes.map((byte) => (byte === 0 ? 0 : 1)) : bytes;
}

/** Byte strings in the form of raw contents. */
export function framedBytes(strings: readonly (string | Uint8Array)[]): FramedBytes {
  const lengths = strings.map((each) => (typeof each === 'string' ? Buffer.byteLength(each) : each.length));
  const framed = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + PREFIX_BYTES + length, 0));
  let at = 0;
  for (const [index, each] of strings.entries()) {
    const length = lengths[index]!; // one for each
    framed.writeUInt32LE(length, at);
    if (typeof each === 'string') framed.write(each, at + PREFIX_BYTES, 'utf8');
    else framed.set(each, at + PREFIX_BYTES);
    at += PREFIX_BYTES + length;
  }
  return { count: strings.length, framed };
}

/** Views of the byte strings in raw contents that were checked. */
export function* framedStrings(framed: Uint8Array): Generator<Uint8Array> {
  const view = viewOf(framed);
  for (let at = 0; at < framed.length; ) {
    const from = at + PREFIX_BYTES;
    at = from + view.getUint32(at, true);
    yield framed.subarray(from, at);
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

/** The failure of a message that cannot be served. */
export function invalid(message: string): ServeError {
  return workerError('InvalidArgument', message);
}
