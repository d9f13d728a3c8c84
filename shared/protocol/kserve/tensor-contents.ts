import { type ServeError, workerError } from '../../errors/index.ts';
import {
  type DataType,
  type FramedBytes,
  type Int64,
  NUMBER_FIELDS,
  type NumberArray,
  type TensorContents,
} from './messages.ts';

/* Conversion of tensor elements between typed lists and raw bytes, the two forms in messages, and their counts. */

const U64_MAX = 2n ** 64n - 1n;
const PREFIX_BYTES = 4;

/**
 * Returns the number of elements of a shape; a shape without dimensions has one.
 * @throws ServeError `invalid_value` for a negative dimension, and for a product beyond 64 bits before a zero comes
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
 * Checks the raw contents of a tensor against its shape. Allocates nothing.
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

/** Counts the byte strings in raw contents. @throws ServeError `invalid_value` if their lengths do not add up */
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
 * Returns the fault in a tensor's number of elements, in Dynamo's words; undefined when it matches the shape.
 * @param elements actual number
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

/** Counts the elements in the field of `contents` that belongs to a type; elements in other fields do not count. */
export function typedCount({ field }: DataType, contents: TensorContents): number {
  if (field === undefined) return 0;
  return (field === 'bytes' ? contents.bytes?.count : contents[field]?.length) ?? 0;
}

/**
 * Returns typed contents as raw bytes. All machines that Node has builds for are little-endian, as raw contents are.
 */
export function rawOf({ field, array: Own }: DataType, contents: TensorContents): Uint8Array {
  if (field === undefined || field === 'bytes' || Own === undefined) return contents.bytes?.framed ?? new Uint8Array(0);
  const list = contents[field] ?? new Own(0);
  return bytesOf(list instanceof Own ? list : new Own(list)); // widened elements are cut to their low bits
}

/** Returns the bytes of an array without copying. */
export function bytesOf({ buffer, byteOffset, byteLength }: NumberArray): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/**
 * Returns raw bytes as typed contents; half precision has none.
 * @param count number of byte strings in `raw`
 */
export function typedOf({ field, array: Own }: DataType, raw: Uint8Array, count: number): TensorContents {
  if (field === 'bytes') return { bytes: { count, framed: raw } };
  if (field === undefined || Own === undefined) return {};
  const elements = new Own(Uint8Array.from(raw).buffer); // views of messages begin at any offset
  if (field === 'bool') return { bool: truthOf(elements as Uint8Array) };
  const Field = NUMBER_FIELDS[field];
  return {
    [field]: elements instanceof Field ? elements : new Field(elements),
  };
}

/** Normalizes bytes to 0 or 1: any other value is true too. */
export function truthOf(bytes: Uint8Array): Uint8Array {
  return bytes.some((byte) => byte > 1) ? bytes.map((byte) => (byte === 0 ? 0 : 1)) : bytes;
}

/** Returns byte strings in the form of raw contents. */
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

/** Yields views of the byte strings in raw contents that were checked. */
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

/** Creates the error for a message that cannot be served. */
export function invalid(message: string): ServeError {
  return workerError('InvalidArgument', message);
}
