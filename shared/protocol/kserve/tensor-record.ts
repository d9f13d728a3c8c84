import { asRecord, isRecord } from '../../records/index.ts';
import {
  type DataType,
  dataTypeOf,
  type InferParameter,
  type InferParameters,
  type InferTensor,
  type Int64,
  type ModelInferRequest,
  type ModelInferResponse,
  NO_PARAMETERS,
  recordTypeOf,
} from './messages.ts';
import {
  bytesOf,
  checkRaw,
  countFault,
  countFramed,
  framedBytes,
  invalid,
  rawOf,
  truthOf,
  typedCount,
  typedOf,
} from './tensor-contents.ts';

/* Records that workers of tensor models read and write: Dynamo's, in which the values of a tensor are bytes. */

/**
 * Tensor in a worker's record.
 *
 * @example
 * function nameOf({ metadata }: TensorRecord): string {
 *   return metadata.name;
 * }
 */
export interface TensorRecord {
  readonly metadata: {
    readonly name: string;
    /** `Int32`, `Float16`, `Bytes`: see `DATA_TYPES`. */
    readonly data_type: string;
    readonly shape: readonly Int64[];
    readonly parameters?: ParameterRecords;
  };
  readonly data: {
    readonly data_type: string;
    /**
     * Elements row by row, little-endian; each byte string after its length of 4 bytes. Workers may also send a list:
     * numbers, booleans, 16-bit patterns for half precision, texts or bytes.
     */
    readonly values: Uint8Array | readonly unknown[];
  };
}

/** `{ key: { kind: value } }`. */
export type ParameterRecords = Readonly<Record<string, InferParameter>>;

/**
 * Request to a tensor model.
 *
 * @example
 * function names({ tensors }: TensorRequestRecord): string[] {
 *   return tensors.map(({ metadata }) => metadata.name);
 * }
 */
export interface TensorRequestRecord {
  /** Id from the client; null if it sent none. */
  readonly id: string | null;
  readonly model: string;
  readonly tensors: readonly TensorRecord[];
  /** Outputs that the client wants, if it lists them. */
  readonly outputs?: readonly { readonly name: string; readonly parameters?: ParameterRecords }[];
  readonly parameters?: ParameterRecords;
}

/**
 * Response of a tensor model; a decoupled model sends several.
 *
 * @example
 * const response: TensorResponseRecord = { model: 'simple', tensors: [writeTensor('SUM', 'Int32', [2], [3, 7])] };
 */
export interface TensorResponseRecord {
  readonly id?: string | null;
  readonly model: string;
  readonly tensors: readonly TensorRecord[];
  readonly parameters?: ParameterRecords;
}

/**
 * Converts a request to a record without copying raw contents. It is not compared with the model's declaration: the
 * worker decides about other tensors.
 * @throws ServeError `invalid_value` in the words of Dynamo
 */
export function tensorRequestOf(request: ModelInferRequest): TensorRequestRecord {
  const { inputs, outputs, rawInputContents: raws } = request;
  if (raws.length > 0 && raws.length !== inputs.length) {
    throw invalid('`raw_input_contents` must be used for all inputs');
  }
  const faults: string[] = [];
  const tensors = inputs.map((input, index) => tensorOf(input, raws[index], index, faults));
  if (faults.length > 0) throw invalid(faults.join(''));
  return {
    id: request.id === '' ? null : request.id,
    model: request.modelName,
    tensors,
    ...(outputs.length === 0
      ? {}
      : { outputs: outputs.map(({ name, parameters }) => ({ name, ...parameterRecords(parameters) })) }),
    ...parameterRecords(request.parameters),
  };
}

function tensorOf(input: InferTensor, raw: Uint8Array | undefined, index: number, faults: string[]): TensorRecord {
  const { name, datatype, shape, contents } = input;
  const type = dataTypeOf(datatype);
  if (type === undefined) throw invalid(`Invalid data type '${datatype.slice(0, 64)}' of input '${name}'`);
  const metadata = { name, data_type: type.record, shape, ...parameterRecords(input.parameters) };
  if (contents === undefined) {
    if (raw === undefined) throw invalid(`Missing data of input '${name}': give contents or raw_input_contents`);
    checkRaw(name, type, shape, raw);
    return { metadata, data: { data_type: type.record, values: type.field === 'bool' ? truthOf(raw) : raw } };
  }
  if (type.field === undefined) {
    const reason = '`InferTensorContents` has no typed field for half-precision';
    throw invalid(`FP16/BF16 tensors must be sent via \`raw_input_contents\`; ${reason} (input '${name}')`);
  }
  const fault = countFault(index, shape, typedCount(type, contents));
  if (fault !== undefined) faults.push(fault);
  return { metadata, data: { data_type: type.record, values: rawOf(type, contents) } };
}

/** Converts parameters. @throws ServeError `invalid_value` for a parameter without a value */
function parameterRecords(parameters: InferParameters): { readonly parameters?: ParameterRecords } {
  if (parameters === NO_PARAMETERS) return {};
  const records: Record<string, InferParameter> = {};
  for (const [key, value] of Object.entries(parameters)) {
    if (value === undefined) throw invalid(`Parameter '${key}' has no value`);
    Object.defineProperty(records, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return { parameters: records };
}

/** Error for an invalid response of a worker, with the message for the client. */
export class BadTensorResponse extends Error {
  /** Kind of fault: the record cannot be read, its tensors contradict themselves, or they have no typed form. */
  readonly kind: 'unreadable' | 'invalid' | 'no-typed-form';

  constructor(kind: BadTensorResponse['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

const RESPONSE_KEYS = ['id', 'model', 'tensors', 'parameters'];

/**
 * Converts a worker's response to a message.
 * @param id that of the request, which its responses repeat
 * @param isRaw whether the request's contents were raw, in which case those of its responses are too
 * @throws BadTensorResponse
 */
export function tensorResponseOf(record: unknown, id: string, isRaw: boolean): ModelInferResponse {
  const response = readResponse(record);
  const faults: string[] = [];
  const tensors = response.tensors.map((tensor, index) => readTensor(tensor, index, faults));
  if (faults.length > 0) throw new BadTensorResponse('invalid', `Invalid NvCreateTensorResponse: ${faults.join('')}`);
  return {
    modelName: response.model,
    modelVersion: '1',
    id,
    parameters: response.parameters,
    outputs: tensors.map((tensor) => outputOf(tensor, isRaw)),
    rawOutputContents: isRaw ? tensors.map(({ raw }) => raw) : [],
  };
}

function readResponse(record: unknown) {
  if (!isRecord(record)) throw unreadable('invalid type: expected a response with `model` and `tensors`');
  const unknown = Object.keys(record).find((key) => !RESPONSE_KEYS.includes(key));
  if (unknown !== undefined) {
    const expected = RESPONSE_KEYS.map((key) => `\`${key}\``).join(', ');
    throw unreadable(`unknown field \`${unknown.slice(0, 64)}\`, expected one of ${expected}`);
  }
  const { model, tensors, parameters } = record;
  if (typeof model !== 'string') throw unreadable('missing field `model`');
  if (!Array.isArray(tensors)) throw unreadable('missing field `tensors`');
  return { model, tensors: tensors as readonly unknown[], parameters: readParameters(parameters) };
}

interface ReadTensor {
  readonly name: string;
  readonly type: DataType;
  readonly shape: readonly Int64[];
  readonly parameters: InferParameters;
  readonly raw: Uint8Array;
  readonly count: number;
}

function readTensor(tensor: unknown, index: number, faults: string[]): ReadTensor {
  const at = `tensors[${index}]`;
  const { metadata, data } = asRecord(tensor) ?? {};
  const { name, data_type: declared, shape, parameters } = asRecord(metadata) ?? {};
  const { data_type: variant, values } = asRecord(data) ?? {};
  const type = recordTypeOf(declared);
  if (typeof name !== 'string' || type === undefined || !isShape(shape)) {
    throw unreadable(`${at}.metadata must have name, data_type and shape`);
  }
  const held = recordTypeOf(variant);
  if (held === undefined) throw unreadable(`${at}.data.data_type must name a type of elements`);
  const raw = rawValues(at, held, values);
  const count = held.bytes > 0 ? raw.length / held.bytes : readable(at, () => countFramed(name, raw));
  if (held !== type) faults.push(`${at}.data_type: metadata.data_type does not match data variant`);
  const fault = countFault(index, shape, count);
  if (fault !== undefined) faults.push(fault);
  return { name, type, shape, parameters: readParameters(parameters), raw, count };
}

/** Returns the result of `read`; if that throws, the values are unreadable. */
function readable<T>(at: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw unreadable(`${at}.data.values: ${thrown instanceof Error ? thrown.message : 'cannot be read'}`);
  }
}

function isShape(shape: unknown): shape is readonly Int64[] {
  return (
    Array.isArray(shape) && shape.every((dimension) => Number.isSafeInteger(dimension) || typeof dimension === 'bigint')
  );
}

function rawValues(at: string, type: DataType, values: unknown): Uint8Array {
  if (values instanceof Uint8Array) {
    if (type.bytes > 0 && values.length % type.bytes !== 0) {
      throw unreadable(`${at}.data.values must be a multiple of ${type.bytes} bytes`);
    }
    return values;
  }
  if (!Array.isArray(values)) throw unreadable(`${at}.data.values must be bytes or a list`);
  return readable(at, () => rawOfList(type, values));
}

/** Returns the elements of a list as raw bytes. @throws Error that says what an element must be */
export function rawOfList(type: DataType, values: readonly unknown[]): Uint8Array {
  if (type.array === undefined) return framedBytes(values.map(byteString)).framed;
  const array = new type.array(values.length);
  const elements: Record<number, number | bigint> = array; // `elementOf` returns what the array's type takes
  const isRounded = type.field === 'fp32' || type.field === 'fp64';
  for (const [index, value] of values.entries()) {
    const element = elementOf(type, value);
    elements[index] = element;
    if (!isRounded && elements[index] !== element) throw new Error(`an element must be ${type.record}, got ${element}`);
  }
  return bytesOf(array);
}

function byteString(value: unknown): string | Uint8Array {
  if (typeof value === 'string' || value instanceof Uint8Array) return value;
  if (Array.isArray(value) && value.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255)) {
    return Uint8Array.from(value);
  }
  throw new Error('an element must be a text or bytes');
}

function elementOf({ field }: DataType, value: unknown): number | bigint {
  switch (field) {
    case 'bool':
      return value === false || value === 0 ? 0 : 1;
    case 'fp32':
    case 'fp64':
      return decimal(value);
    case 'int64':
    case 'uint64':
      return BigInt(value as number);
    default:
      return whole(value);
  }
}

function whole(value: unknown): number {
  if (!Number.isInteger(value)) throw new Error(`an element must be a whole number, got ${String(value).slice(0, 40)}`);
  return value as number;
}

function decimal(value: unknown): number {
  if (typeof value !== 'number') throw new Error(`an element must be a number, got ${String(value).slice(0, 40)}`);
  return value;
}

function readParameters(parameters: unknown): InferParameters {
  if (parameters === undefined || parameters === null) return NO_PARAMETERS;
  if (!isRecord(parameters)) throw unreadable('`parameters` must be an object');
  for (const [key, value] of Object.entries(parameters)) {
    if (!isParameter(value)) {
      throw unreadable(`parameter \`${key.slice(0, 64)}\` must have one of bool, int64, string, double, uint64`);
    }
  }
  return parameters as InferParameters; // each was checked
}

function isParameter(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const [kind, ...others] = Object.keys(value);
  if (kind === undefined || others.length > 0) return false;
  const held = value[kind];
  switch (kind) {
    case 'bool':
      return typeof held === 'boolean';
    case 'string':
      return typeof held === 'string';
    case 'double':
      return typeof held === 'number';
    case 'int64':
    case 'uint64':
      return Number.isSafeInteger(held) || typeof held === 'bigint';
    default:
      return false;
  }
}

function outputOf({ name, type, shape, parameters, raw, count }: ReadTensor, isRaw: boolean): InferTensor {
  if (!isRaw && type.field === undefined) {
    const reason = 'use `raw_output_contents` (set_raw_output_contents = true)';
    const message = `FP16/BF16 tensors cannot be returned via \`InferTensorContents\`; ${reason} for output '${name}'`;
    throw new BadTensorResponse('no-typed-form', message);
  }
  return {
    name,
    datatype: type.wire,
    shape,
    parameters,
    contents: isRaw ? undefined : typedOf(type, raw, count),
  };
}

function unreadable(message: string): BadTensorResponse {
  return new BadTensorResponse('unreadable', message);
}
