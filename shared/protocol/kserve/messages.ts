/** 64 bits: a number if that is exact, otherwise a bigint. */
export type Int64 = number | bigint;

/** Value of `parameters`, by its member of the oneof; undefined if none is set. */
export type InferParameter =
  | { readonly bool: boolean }
  | { readonly int64: Int64 }
  | { readonly string: string }
  | { readonly double: number }
  | { readonly uint64: Int64 };

export type InferParameters = Readonly<Record<string, InferParameter | undefined>>;

/** Arrays of numbers, bytes included. */
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

/** `InferTensorContents`: the content of each field in the machine's own form; an empty field may be absent. */
export interface TensorContents {
  /** One byte for each element: 0 or 1. */
  readonly bool?: Uint8Array;
  readonly int?: Int32Array;
  readonly int64?: BigInt64Array;
  readonly uint?: Uint32Array;
  readonly uint64?: BigUint64Array;
  readonly fp32?: Float32Array;
  readonly fp64?: Float64Array;
  readonly bytes?: FramedBytes;
}

/** Byte strings one after another, each after its length of 4 bytes, little-endian. */
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
  /** Contents; absent differs from empty. */
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

/** Array types of the number fields of `TensorContents`. */
export const NUMBER_FIELDS: Readonly<Record<Exclude<keyof TensorContents, 'bytes'>, ArrayType>> = {
  bool: Uint8Array,
  int: Int32Array,
  int64: BigInt64Array,
  uint: Uint32Array,
  uint64: BigUint64Array,
  fp32: Float32Array,
  fp64: Float64Array,
};

/** Element type of a tensor. */
export interface DataType {
  /** `datatype` in a tensor's message, e.g. `INT32`. Case matters. */
  readonly wire: string;
  /** Number in `DataType` of model_config.proto, where `BYTES` is called `TYPE_STRING`. */
  readonly config: number;
  /** Name in workers' records, e.g. `Int32`. */
  readonly record: string;
  /** Array that holds raw elements as they are; byte strings have none. */
  readonly array: ArrayType | undefined;
  /** Bytes of one raw element; 0 = each has its own length. */
  readonly bytes: number;
  /**
   * Field of `InferTensorContents` for the elements, with narrower types of a kind widened. Half precision has none and
   * is always sent raw.
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

/** Returns the type by its name in messages. */
export function dataTypeOf(wire: string): DataType | undefined {
  return BY_WIRE.get(wire);
}

/** Returns the type by its name in workers' records. */
export function recordTypeOf(name: unknown): DataType | undefined {
  return BY_RECORD.get(name);
}

/** Returns the wire name of a number of model_config.proto; `TYPE_INVALID` for an unknown number. */
export function wireNameOf(config: number): string {
  return BY_CONFIG.get(config)?.wire ?? 'TYPE_INVALID';
}
