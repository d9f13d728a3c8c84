import { ContentsReader, writeContents } from './contents-codec.ts';
import { FIXED64, LENGTH, MessageReader, requireRoom, VARINT } from './message-reader.ts';
import { MessageWriter, PIECE_BYTES_MIN } from './message-writer.ts';
import {
  type InferParameter,
  type InferParameters,
  type InferRequestedOutput,
  type InferTensor,
  type Int64,
  type ModelInferRequest,
  type ModelInferResponse,
  type ModelStreamInferResponse,
  NO_PARAMETERS,
} from './messages.ts';

/*
 * Hand-written codecs of ModelInferRequest, ModelInferResponse and ModelStreamInferResponse, the messages of each
 * request and token. A test compares them with the generated ones.
 */

/** Reads a field of a message; returns false if it is unknown or has another wire type. */
type ReadField = (field: number, wireType: number) => boolean;

function readFields(reader: MessageReader, read: ReadField): void {
  while (reader.hasMore) {
    const tag = reader.tag();
    if (!read(tag >>> 3, tag & 7)) reader.skip(tag);
  }
}

/**
 * Decodes a request; raw contents are views of `bytes`.
 * @throws ServeError `invalid_value` for bytes that are not such a message, or lists beyond `LIMITS.infer_entries`
 */
export function decodeModelInferRequest(bytes: Buffer): ModelInferRequest {
  const reader = new MessageReader(bytes);
  let modelName = '';
  let modelVersion = '';
  let id = '';
  const parameters = new ParameterReader();
  const inputs: InferTensor[] = [];
  const outputs: InferRequestedOutput[] = [];
  const rawInputContents: Uint8Array[] = [];
  readFields(reader, (field, wireType) => {
    if (wireType !== LENGTH) return false;
    if (field === 1) modelName = reader.text();
    else if (field === 2) modelVersion = reader.text();
    else if (field === 3) id = reader.text();
    else if (field === 4) parameters.read(reader);
    else if (field === 5) addEntry('inputs', inputs, reader.within(readTensor));
    else if (field === 6) addEntry('outputs', outputs, reader.within(readRequestedOutput));
    else if (field === 7) addEntry('raw_input_contents', rawInputContents, reader.slice());
    else return false;
    return true;
  });
  return { modelName, modelVersion, id, parameters: parameters.all, inputs, outputs, rawInputContents };
}

function addEntry<Entry>(list: string, entries: Entry[], entry: Entry): void {
  entries.push(entry);
  requireRoom(list, entries.length);
}

function readTensor(reader: MessageReader): InferTensor {
  let name = '';
  let datatype = '';
  const shape: Int64[] = [];
  const parameters = new ParameterReader();
  let contents: ContentsReader | undefined;
  readFields(reader, (field, wireType) => {
    if (field === 3) return readShape(wireType, reader, shape);
    if (wireType !== LENGTH) return false;
    if (field === 1) name = reader.text();
    else if (field === 2) datatype = reader.text();
    else if (field === 4) parameters.read(reader);
    else if (field === 5) {
      contents ??= new ContentsReader();
      reader.within((inner) => contents?.read(inner));
    } else return false;
    return true;
  });
  return { name, datatype, shape, parameters: parameters.all, contents: contents?.all };
}

function readShape(wireType: number, reader: MessageReader, shape: Int64[]): boolean {
  const readOne = (): void => addEntry('shape', shape, reader.int64());
  if (wireType === VARINT) readOne();
  else if (wireType !== LENGTH) return false;
  else {
    reader.within(() => {
      while (reader.hasMore) readOne();
    });
  }
  return true;
}

function readRequestedOutput(reader: MessageReader): InferRequestedOutput {
  let name = '';
  const parameters = new ParameterReader();
  readFields(reader, (field, wireType) => {
    if (wireType !== LENGTH) return false;
    if (field === 1) name = reader.text();
    else if (field === 2) parameters.read(reader);
    else return false;
    return true;
  });
  return { name, parameters: parameters.all };
}

/** Reader of a map of parameters, one entry after another. */
class ParameterReader {
  #all: Record<string, InferParameter | undefined> | undefined;
  #entries = 0;

  get all(): InferParameters {
    return this.#all ?? NO_PARAMETERS;
  }

  read(reader: MessageReader): void {
    requireRoom('parameters', ++this.#entries);
    let key = '';
    let value: InferParameter | undefined;
    const readEntry: ReadField = (field, wireType) => {
      if (wireType !== LENGTH) return false;
      if (field === 1) key = reader.text();
      else if (field === 2) value = reader.within((inner) => readParameterValue(inner, value));
      else return false;
      return true;
    };
    reader.within(() => readFields(reader, readEntry));
    // keys come from clients: one may be `__proto__`
    this.#all ??= Object.create(null) as Record<string, InferParameter | undefined>;
    this.#all[key] = value;
  }
}

/** Reads a value. If several members of the oneof are set, the last one counts. */
function readParameterValue(reader: MessageReader, known: InferParameter | undefined): InferParameter | undefined {
  let value = known;
  readFields(reader, (field, wireType) => {
    if (field === 1 && wireType === VARINT) value = { bool: reader.bool() };
    else if (field === 2 && wireType === VARINT) value = { int64: reader.int64() };
    else if (field === 3 && wireType === LENGTH) value = { string: reader.text() };
    else if (field === 4 && wireType === FIXED64) value = { double: reader.double() };
    else if (field === 5 && wireType === VARINT) value = { uint64: reader.uint64() };
    else return false;
    return true;
  });
  return value;
}

/** Encodes a response after gRPC's prefix; large contents become pieces of their own that are not copied. */
export function encodeModelInferResponse(response: ModelInferResponse): readonly Buffer[] {
  const writer = new MessageWriter(responseBytes(response));
  writeResponse(writer, response);
  return writer.finish();
}

/** Encodes a stream's response as `encodeModelInferResponse` does. */
export function encodeModelStreamInferResponse({
  errorMessage,
  inferResponse,
}: ModelStreamInferResponse): readonly Buffer[] {
  const writer = new MessageWriter(inferResponse === undefined ? undefined : responseBytes(inferResponse));
  if (inferResponse !== undefined) {
    const before = writer.length;
    writeResponse(writer, inferResponse);
    writer.prefix(2, before);
  }
  writer.text(1, errorMessage);
  return writer.finish();
}

const REST_BYTES = 512;

/** Estimates the size of a response without its large contents, so that its buffer rarely has to grow. */
function responseBytes({ outputs, rawOutputContents }: ModelInferResponse): number {
  let bytes = REST_BYTES;
  for (const raw of rawOutputContents) bytes += copiedBytes(raw);
  for (const { contents } of outputs) {
    if (contents === undefined) continue;
    const { bytes: strings, fp32, fp64, ...varints } = contents;
    bytes += strings?.framed.length ?? 0;
    for (const list of [fp32, fp64]) if (list !== undefined) bytes += copiedBytes(list);
    for (const list of Object.values(varints)) bytes += list.byteLength;
  }
  return bytes;
}

function copiedBytes({ byteLength }: ArrayBufferView): number {
  return byteLength < PIECE_BYTES_MIN ? byteLength + 8 : 8;
}

function writeResponse(writer: MessageWriter, response: ModelInferResponse): void {
  const { outputs, rawOutputContents: raws } = response;
  for (let index = raws.length - 1; index >= 0; index--) writer.bytes(6, raws[index]!);
  for (let index = outputs.length - 1; index >= 0; index--) {
    const before = writer.length;
    writeTensor(writer, outputs[index]!);
    writer.prefix(5, before);
  }
  writeParameters(writer, 4, response.parameters);
  writer.text(3, response.id);
  writer.text(2, response.modelVersion);
  writer.text(1, response.modelName);
}

function writeTensor(writer: MessageWriter, { name, datatype, shape, parameters, contents }: InferTensor): void {
  if (contents !== undefined) {
    const before = writer.length;
    writeContents(writer, contents);
    writer.prefix(5, before);
  }
  writeParameters(writer, 4, parameters);
  if (shape.length > 0) {
    const before = writer.length;
    for (let index = shape.length - 1; index >= 0; index--) writer.int64(shape[index]!);
    writer.prefix(3, before);
  }
  writer.text(2, datatype);
  writer.text(1, name);
}

function writeParameters(writer: MessageWriter, field: number, parameters: InferParameters): void {
  if (parameters === NO_PARAMETERS) return;
  for (const [key, value] of Object.entries(parameters).reverse()) {
    const before = writer.length;
    const inner = writer.length;
    writeParameterValue(writer, value);
    writer.prefix(2, inner);
    writer.text(1, key);
    writer.prefix(field, before);
  }
}

function writeParameterValue(writer: MessageWriter, value: InferParameter | undefined): void {
  if (value === undefined) return;
  if ('bool' in value) {
    writer.varint(value.bool ? 1 : 0);
    writer.tag(1, VARINT);
  } else if ('int64' in value) {
    writer.int64(value.int64);
    writer.tag(2, VARINT);
  } else if ('string' in value) {
    writer.textAlways(3, value.string);
  } else if ('double' in value) {
    writer.double(value.double);
    writer.tag(4, FIXED64);
  } else {
    writer.int64(value.uint64);
    writer.tag(5, VARINT);
  }
}
