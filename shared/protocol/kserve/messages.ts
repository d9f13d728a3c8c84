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

/**
 * `InferTensorContents`: what came in each of its fields, in the machine's own form. A list of byte strings is kept in the
 * form that raw contents have: a length of 4 bytes, little-endian, before each.
 */
export interface TensorContents {
  /** A byte each: 0 or 1. */
  readonly bool: Uint8Array;
  readonly int: Int32Array;
  readonly int64: BigInt64Array;
  readonly uint: Uint32Array;
  readonly uint64: BigUint64Array;
  readonly fp32: Float32Array;
  readonly fp64: Float64Array;
  readonly bytes: FramedBytes;
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

const NO_BYTES = new Uint8Array(0);

export const NO_CONTENTS: TensorContents = Object.freeze({
  bool: NO_BYTES,
  int: new Int32Array(0),
  int64: new BigInt64Array(0),
  uint: new Uint32Array(0),
  uint64: new BigUint64Array(0),
  fp32: new Float32Array(0),
  fp64: new Float64Array(0),
  bytes: Object.freeze({ count: 0, framed: NO_BYTES }),
});

export const NO_PARAMETERS: InferParameters = Object.freeze({});

/**
 * Families of `InferTensorContents`: one repeated field each, into which the narrower types of a kind are widened. Half
 * precision has none and travels raw alone.
 */
type ContentsFamily = 'bool' | 'int' | 'int64' | 'uint' | 'uint64' | 'fp32' | 'fp64' | 'bytes';

/** One element type of a tensor. */
export interface DataType {
  /** `datatype` of a tensor's message: `INT32`. Case matters. */
  readonly wire: string;
  /** Number in `DataType` of model_config.proto, where `BYTES` is called `TYPE_STRING`. */
  readonly config: number;
  /** As workers read it: `Int32`. */
  readonly record: string;
  /** Bytes of one raw element; 0 = each has its own length. */
  readonly bytes: number;
  readonly family: ContentsFamily | undefined;
}

function type(
  wire: string,
  config: number,
  record: string,
  bytes: number,
  family: ContentsFamily | undefined,
): DataType {
  return { wire, config, record, bytes, family };
}

export const DATA_TYPES: readonly DataType[] = [
  type('BOOL', 1, 'Bool', 1, 'bool'),
  type('UINT8', 2, 'Uint8', 1, 'uint'),
  type('UINT16', 3, 'Uint16', 2, 'uint'),
  type('UINT32', 4, 'Uint32', 4, 'uint'),
  type('UINT64', 5, 'Uint64', 8, 'uint64'),
  type('INT8', 6, 'Int8', 1, 'int'),
  type('INT16', 7, 'Int16', 2, 'int'),
  type('INT32', 8, 'Int32', 4, 'int'),
  type('INT64', 9, 'Int64', 8, 'int64'),
  type('FP16', 10, 'Float16', 2, undefined),
  type('FP32', 11, 'Float32', 4, 'fp32'),
  type('FP64', 12, 'Float64', 8, 'fp64'),
  type('BYTES', 13, 'Bytes', 0, 'bytes'),
  type('BF16', 14, 'BFloat16', 2, undefined),
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
