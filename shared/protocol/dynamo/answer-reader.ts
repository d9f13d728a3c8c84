import { type ServeError, workerError } from '../../errors/index.ts';
import { isRecord, type UnknownRecord } from '../../records/index.ts';
import {
  cutLongOutput,
  type EngineOutput,
  OUTPUT_TOKENS_MAX,
  type OutputSink,
  readEngineOutput,
} from '../generation/engine-output.ts';
import { readTypedError } from './typed-error.ts';

const U32_MAX = 0xffff_ffff;

/**
 * Reads the answer of a worker of Dynamo's, item by item, and passes it on to a sink. The caller ends or fails the sink
 * when the stream ends; `item` fails it for an error among the items, and then ignores what follows.
 *
 * @example
 * const reader = new DynamoAnswerReader(sink);
 * reader.item({ data: { token_ids: [42], index: 0 } }); // sink.tokens(0, [42], 0, 1)
 */
export class DynamoAnswerReader {
  readonly #sink: OutputSink;
  #hasFailed = false;

  constructor(sink: OutputSink) {
    this.#sink = sink;
  }

  /** Takes one annotated item: `{ data?, event?, comment?, error? }`. */
  item(annotated: unknown): void {
    if (this.#hasFailed) return;
    const failure = this.#read(annotated);
    if (failure === undefined) return;
    this.#hasFailed = true;
    this.#sink.fail(failure);
  }

  /** Passes on the data of an item. Returns its failure, if it is one. */
  #read(annotated: unknown): ServeError | undefined {
    if (!isRecord(annotated)) return faulty('an item that is not an object');
    const { data, event, error } = annotated;
    if (event === 'error' || (error !== undefined && error !== null)) return readTypedError(annotated);
    if (data === undefined || data === null) return undefined; // an annotation for the frontend's own use
    if (!isRecord(data)) return faulty('an output that is not an object');
    const ids = data.token_ids;
    if (Array.isArray(ids) && ids.length <= OUTPUT_TOKENS_MAX && isPlain(data) && areTokenIds(ids)) {
      if (ids.length > 0) this.#sink.tokens((data.index as number | null | undefined) ?? 0, ids, 0, ids.length);
      return undefined;
    }
    if (isOutput(data)) return this.#outputs(data);
    const isForClient = data.tensors === undefined && data.embeddings === undefined; // else a dialect reads it
    this.#sink.output({ body: isForClient ? withNumbers(data) : withTextVectors(data) });
    return undefined;
  }

  #outputs(data: UnknownRecord): ServeError | undefined {
    const pieces = isCuttable(data) ? cutLongOutput(data as EngineOutput) : [data];
    for (const piece of pieces) {
      const output = readEngineOutput(piece);
      if (typeof output === 'string') return faulty(output);
      const { engine_data } = output;
      if (engine_data == null) this.#sink.output(output);
      else this.#sink.output({ ...output, engine_data: withNumbers(engine_data) });
    }
    return undefined;
  }
}

function faulty(what: string): ServeError {
  return workerError('BackendProtocol', what);
}

/** Whether an output says nothing but token ids of a choice. Creates no object: nearly all outputs are such. */
function isPlain(data: UnknownRecord): boolean {
  for (const name in data) {
    const value = data[name];
    if (value === null || value === undefined || name === 'token_ids') continue;
    if (name === 'output_type' && value === 'text') continue;
    if (name === 'index' && isU32(value)) continue;
    return false;
  }
  return true;
}

function areTokenIds(ids: readonly unknown[]): boolean {
  for (let at = 0; at < ids.length; at++) if (!isU32(ids[at])) return false;
  return true;
}

function isU32(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= U32_MAX;
}

/** Whether a record is an output in tokens. All others are bodies: chunks of a chat, embeddings, tensors. */
function isOutput(data: UnknownRecord): boolean {
  if (data.token_ids !== undefined) return true;
  return data.choices === undefined && data.object === undefined && !isBody(data);
}

function isBody({ embeddings, tensors, data }: UnknownRecord): boolean {
  return embeddings !== undefined || tensors !== undefined || data !== undefined;
}

/** Whether the parts of an output that may be too long are of the right kind, so that it can be cut. */
function isCuttable(data: UnknownRecord): boolean {
  const { text, token_ids: ids, tokens, log_probs: logprobs, top_logprobs: tops } = data;
  const lists = [ids, tokens, logprobs, tops];
  return (text == null || typeof text === 'string') && lists.every((list) => list == null || Array.isArray(list));
}

/** Returns embeddings as base64 of little-endian f32, as Stator's workers send them. Dynamo's may also send numbers. */
function withTextVectors(data: UnknownRecord): UnknownRecord {
  const { embeddings } = data;
  if (!Array.isArray(embeddings) || !embeddings.some(Array.isArray)) return data;
  return { ...data, embeddings: embeddings.map((vector) => (Array.isArray(vector) ? base64Of(vector) : vector)) };
}

/**
 * Returns data for clients, who read it as JSON, with numbers in place of bigints. Integers beyond 2^53 are rounded, as
 * most readers of JSON round them.
 */
function withNumbers<Data>(data: Data): Data {
  return hasBigint(data) ? (rounded(data) as Data) : data; // few have one, and no copy is made of the others
}

function hasBigint(data: unknown): boolean {
  if (typeof data !== 'object' || data === null || data instanceof Uint8Array) return typeof data === 'bigint';
  if (Array.isArray(data)) return data.some(hasBigint);
  for (const name in data) if (hasBigint((data as UnknownRecord)[name])) return true;
  return false;
}

function rounded(data: unknown): unknown {
  if (typeof data === 'bigint') return Number(data);
  if (typeof data !== 'object' || data === null || data instanceof Uint8Array) return data;
  if (Array.isArray(data)) return data.map(rounded);
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, rounded(value)]));
}

function base64Of(vector: readonly unknown[]): string {
  const bytes = Buffer.alloc(4 * vector.length);
  for (let at = 0; at < vector.length; at++) bytes.writeFloatLE(Number(vector[at]), 4 * at);
  return bytes.toString('base64');
}
