/** 64 bits: a number where that is exact, else a bigint. */
export type Int64 = number | bigint;

/** A value of `parameters`, by its member of the oneof; undefined where none is set. */
export type InferParameter =
  | { readonly bool: boolean }
  | { readonly int64: Int64 }
  | { readonly string: string }
  | { readonly double: number }
  | { readonly uint64: Int64 };

export type InferParameters = Readonly<Record<string, InferParameter | undefined>>;

/** Arrays of numbers, and of bytes that are numbers. */
export type NumberArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

/** `InferTensorContents`: what came in each of its fields, in the machine's own form; a field that is empty may be absent. */
export interface TensorContents {
  /** A byte each: 0 or 1. */
  readonly bool?: Uint8Array;
  readonly int?: Int32Array;
  readonly int64?: BigInt64Array;
  readonly uint?: Uint32Array;
  readonly uint64?: BigUint64Array;
  readonly fp32?: Float32Array;
  readonly fp64?: Float64Array;
  readonly bytes?: FramedBytes;
}

/** Byte strings behind each other, a length of 4 bytes, little-endian, before each. */
export interface FramedBytes {
  readonly count: number;
  readonly framed: Uint8Array;
}

/** `InferInputTensor` and `InferOutputTensor`. */
export interface InferTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly Int64[];
  readonly parameters: InferParameters;
  /** Absent is another thing than empty. */
  readonly contents: TensorContents | undefined;
}

export interface InferRequestedOutput {
  readonly name: string;
  readonly parameters: InferParameters;
}

export interface ModelInferRequest {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: InferParameters;
  readonly inputs: readonly InferTensor[];
  readonly outputs: readonly InferRequestedOutput[];
  /** Views of the message. */
  readonly rawInputContents: readonly Uint8Array[];
}

export interface ModelInferResponse {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: InferParameters;
  readonly outputs: readonly InferTensor[];
  readonly rawOutputContents: readonly Uint8Array[];
}

export interface ModelStreamInferResponse {
  readonly errorMessage: string;
  readonly inferResponse: ModelInferResponse | undefined;
}

export const NO_PARAMETERS: InferParameters = Object.freeze({});

interface ArrayType {
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): NumberArray;
  new (buffer: ArrayBufferLike, offset?: number, length?: number): NumberArray;
  new (elements: ArrayLike<number> | ArrayLike<bigint>): NumberArray;
}

/** What the fields of `TensorContents` are that hold numbers. */
export const NUMBER_FIELDS: Readonly<Record<Exclude<keyof TensorContents, 'bytes'>, ArrayType>> = {
  bool: Uint8Array,
  int: Int32Array,
  int64: BigInt64Array,
  uint: Uint32Array,
  uint64: BigUint64Array,
  fp32: Float32Array,
  fp64: Float64Array,
};

/** One element type of a tensor. */
export interface DataType {
  /** `datatype` of a tensor's message: `INT32`. Case matters. */
  readonly wire: string;
  /** Number in `DataType` of model_config.proto, where `BYTES` is called `TYPE_STRING`. */
  readonly config: number;
  /** As workers read it: `Int32`. */
  readonly record: string;
  /** The array that holds raw elements as they are; byte strings have none. */
  readonly array: ArrayType | undefined;
  /** Bytes of one raw element; 0 = each has its own length. */
  readonly bytes: number;
  /**
   * The field of `InferTensorContents` into which elements are put, the narrower types of a kind widened. Half precision has none
   * and travels raw alone.
   */
  readonly field: keyof TensorContents | undefined;
}

function type(
  wire: string,
  config: number,
  record: string,
  array: ArrayType | undefined,
  field: DataType['field'],
): DataType {
  return { wire, config, record, array, bytes: array?.BYTES_PER_ELEMENT ?? 0, field };
}

export const DATA_TYPES: readonly DataType[] = [
  type('BOOL', 1, 'Bool', Uint8Array, 'bool'),
  type('UINT8', 2, 'Uint8', Uint8Array, 'uint'),
  type('UINT16', 3, 'Uint16', Uint16Array, 'uint'),
  type('UINT32', 4, 'Uint32', Uint32Array, 'uint'),
  type('UINT64', 5, 'Uint64', BigUint64Array, 'uint64'),
  type('INT8', 6, 'Int8', Int8Array, 'int'),
  type('INT16', 7, 'Int16', Int16Array, 'int'),
  type('INT32', 8, 'Int32', Int32Array, 'int'),
  type('INT64', 9, 'Int64', BigInt64Array, 'int64'),
  type('FP16', 10, 'Float16', Uint16Array, undefined),
  type('FP32', 11, 'Float32', Float32Array, 'fp32'),
  type('FP64', 12, 'Float64', Float64Array, 'fp64'),
  type('BYTES', 13, 'Bytes', undefined, 'bytes'),
  type('BF16', 14, 'BFloat16', Uint16Array, undefined),
];

const BY_WIRE: ReadonlyMap<string, DataType> = new Map(DATA_TYPES.map((each) => [each.wire, each]));
const BY_RECORD: ReadonlyMap<unknown, DataType> = new Map(DATA_TYPES.map((each) => [each.record, each]));
const BY_CONFIG: ReadonlyMap<number, DataType> = new Map(DATA_TYPES.map((each) => [each.config, each]));

/** By its name in messages. */
export function dataTypeOf(wire: string): DataType | undefined {
  return BY_WIRE.get(wire);
}

/** By its name in workers' records. */
export function recordTypeOf(name: unknown): DataType | undefined {
  return BY_RECORD.get(name);
}

/** Wire name of a number of model_config.proto; `TYPE_INVALID` for one that is none. */
export function wireNameOf(config: number): string {
  return BY_CONFIG.get(config)?.wire ?? 'TYPE_INVALID';
}
