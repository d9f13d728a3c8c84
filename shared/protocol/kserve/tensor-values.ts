import { DATA_TYPES, type DataType, type Int64, type NumberArray, recordTypeOf } from './messages.ts';
import { bytesOf, elementsOf, framedBytes, framedStrings } from './tensor-contents.ts';
import { rawOfList, type TensorRecord } from './tensor-record.ts';

/* Numbers of 16 bits, for which JavaScript has no arrays. */

/** One of the two formats: number of fraction bits, and bias of the exponent. */
interface Format {
  readonly fractionBits: number;
  readonly bias: number;
}

/** FP16, as in IEEE 754. */
export const FP16: Format = { fractionBits: 10, bias: 15 };
/** BF16: the upper half of a number of 32 bits. */
export const BF16: Format = { fractionBits: 7, bias: 127 };

/** Returns the number that a pattern of 16 bits stands for. */
export function fromBits16(bits: number, { fractionBits, bias }: Format): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const scale = 2 ** fractionBits;
  const fraction = bits & (scale - 1);
  const exponent = (bits & 0x7fff) >> fractionBits;
  if (exponent === 2 * bias + 1) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits);
  return sign * (1 + fraction / scale) * 2 ** (exponent - bias);
}

const double = new DataView(new ArrayBuffer(8));

/** Returns the nearest pattern, or the even one of two equally near; infinity beyond the largest number. */
export function toBits16(value: number, { fractionBits, bias }: Format): number {
  double.setFloat64(0, value);
  const high = double.getUint32(0);
  const sign = (high >>> 16) & 0x8000;
  const infinity = (2 * bias + 1) << fractionBits;
  if (Number.isNaN(value)) return infinity | (1 << (fractionBits - 1));
  const exponent = Math.max(((high >>> 20) & 0x7ff) - 1023, 1 - bias);
  if (exponent > bias) return sign | infinity;
  const steps = roundHalfEven(Math.abs(value) / 2 ** (exponent - fractionBits));
  // A fraction that rounds up to the next power of two carries into the exponent, from the largest number into
  // infinity.
  const scale = 2 ** fractionBits;
  return sign | (steps < scale ? steps : ((exponent + bias) << fractionBits) + (steps - scale));
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

/* Tensors as the code of a model sees them: JavaScript arrays. */

/**
 * Elements of a tensor, row by row. Truth values are bytes 0 and 1, half precision is widened, byte strings are
 * buffers.
 *
 * @example
 * const values: TensorValues = readTensor(writeTensor('x', 'Float32', [2], [0.5, 1]));
 */
export type TensorValues = NumberArray | readonly Uint8Array[];

const HALVES = new Map([
  ['Float16', FP16],
  ['BFloat16', BF16],
]);

/**
 * Reads the elements of a tensor in a request.
 * @throws TypeError for an unknown element type
 *
 * @example
 * function sum(tensor: TensorRecord): number {
 *   return [...readTensor(tensor)].reduce<number>((total, value) => total + Number(value), 0);
 * }
 */
export function readTensor({ data }: Pick<TensorRecord, 'data'>): TensorValues {
  const type = typeOf(data.data_type);
  const raw = data.values instanceof Uint8Array ? data.values : rawOfList(type, data.values);
  if (type.array === undefined) {
    return [...framedStrings(raw)].map((each) => Buffer.from(each.buffer, each.byteOffset, each.byteLength));
  }
  // A view if the bytes are aligned, otherwise a copy.
  const { buffer, byteOffset, byteLength } = raw.byteOffset % type.bytes === 0 ? raw : Uint8Array.from(raw);
  const array = new type.array(buffer, byteOffset, byteLength / type.bytes);
  const half = HALVES.get(type.record);
  return half === undefined ? array : Float32Array.from(array as Uint16Array, (bits) => fromBits16(bits, half));
}

/**
 * Elements for a tensor: an array of the type's own kind, or any list of its elements.
 *
 * @example
 * const elements: TensorElements = [true, false, true];
 */
export type TensorElements = ArrayLike<number | bigint | boolean | string | Uint8Array>;

/**
 * Writes a tensor for a response.
 * @param dataType `Int32`, `Float16`, `Bytes`: see the message of the error for all of them
 * @param values elements row by row, as many as the shape says. Half precision takes numbers, and a `Uint16Array` of
 * patterns as it is.
 * @throws TypeError that names what is wrong
 *
 * @example
 * const sum = writeTensor('SUM', 'Int32', [1, 2], [3, 7]);
 */
export function writeTensor(
  name: string,
  dataType: string,
  shape: readonly Int64[],
  values: TensorElements,
): TensorRecord {
  const type = typeOf(dataType);
  try {
    const expected = elementsOf(shape);
    if (BigInt(values.length) !== expected) {
      throw new Error(`shape [${shape.join(', ')}] stands for ${expected} elements, got ${values.length}`);
    }
    return {
      metadata: { name, data_type: dataType, shape },
      data: { data_type: dataType, values: rawOf(type, values) },
    };
  } catch (cause) {
    throw new TypeError(`tensor ${name} (${dataType}): ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
}

function rawOf(type: DataType, values: TensorElements): Uint8Array {
  if (type.array === undefined)
    return framedBytes(Array.from(values as ArrayLike<string | Uint8Array>, stringOrBytes)).framed;
  if (values instanceof type.array) return bytesOf(values);
  const half = HALVES.get(type.record);
  if (half === undefined) return rawOfList(type, Array.from(values));
  return rawOf(
    type,
    Uint16Array.from(Array.from(values, number), (value) => toBits16(value, half)),
  );
}

function stringOrBytes(value: unknown): string | Uint8Array {
  if (typeof value === 'string' || value instanceof Uint8Array) return value;
  throw new Error(`an element must be a text or bytes, got ${String(value).slice(0, 40)}`);
}

function number(value: unknown): number {
  if (typeof value === 'number') return value;
  throw new Error(`an element must be a number, got ${String(value).slice(0, 40)}`);
}

function typeOf(name: string): DataType {
  const type = recordTypeOf(name);
  if (type !== undefined) return type;
  throw new TypeError(
    `data type ${JSON.stringify(name)}: expected ${DATA_TYPES.map(({ record }) => record).join(', ')}`,
  );
}
