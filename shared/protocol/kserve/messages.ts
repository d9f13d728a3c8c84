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
