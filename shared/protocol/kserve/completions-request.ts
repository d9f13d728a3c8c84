import type { ServeError } from '../../errors/index.ts';
import type { InferParameter, InferParameters, InferTensor, ModelInferRequest } from './messages.ts';
import { framedStrings, invalid } from './tensor-contents.ts';

/* Conversion of a request to a text model into the equivalent body of `POST /v1/completions`. */

/** Request to a text model, converted. */
export interface InferCompletions {
  /** Body without the model. `stream` is as the client sent it. */
  readonly body: Readonly<Record<string, unknown>> & { readonly prompt: string; readonly stream: boolean };
  /** Triton's `timeout`, in milliseconds; undefined if there is none. */
  readonly timeoutMs: number | undefined;
}

/** Type of each parameter, by the name of the field in a completions body. */
const FIELDS: Readonly<Record<string, 'number' | 'boolean' | 'string' | 'stop'>> = {
  max_tokens: 'number',
  min_tokens: 'number',
  temperature: 'number',
  top_p: 'number',
  top_k: 'number',
  min_p: 'number',
  n: 'number',
  best_of: 'number',
  seed: 'number',
  frequency_penalty: 'number',
  presence_penalty: 'number',
  repetition_penalty: 'number',
  thinking_token_budget: 'number',
  ignore_eos: 'boolean',
  include_stop_str_in_output: 'boolean',
  skip_special_tokens: 'boolean',
  detokenize: 'boolean',
  echo: 'boolean',
  stop: 'stop',
  suffix: 'string',
  cache_salt: 'string',
  guided_regex: 'string',
  guided_grammar: 'string',
};

const MICROSECONDS_PER_MS = 1000;
/** Number of tiers of the router's queue, which have 32 bits; the highest tier goes first. */
const TIERS = 2 ** 32;

/**
 * Reads a request to a text model: inputs `text_input` and `stream` (or `streaming`), parameters named like the fields
 * of a completions body, Triton's `priority` (1 goes first; 0 = none) and `timeout` (microseconds; 0 = none). Other
 * parameters are ignored.
 * @throws ServeError `invalid_value` in the words of Dynamo
 */
export function completionsOf(request: ModelInferRequest): InferCompletions {
  const { inputs, rawInputContents: raws, parameters, id } = request;
  if (raws.length > 0 && raws.length !== inputs.length) {
    throw invalid('`raw_input_contents` must be used for all inputs');
  }
  let prompt: string | undefined;
  let isStream = false;
  for (const [index, input] of inputs.entries()) {
    if (input.name === 'text_input') prompt = readPrompt(input, raws[index]);
    else if (input.name === 'stream' || input.name === 'streaming') isStream = readStream(input, raws[index]);
    else {
      const name = input.name.slice(0, 64);
      throw invalid(`Invalid input name: ${name}, supported inputs are 'text_input', 'stream'`);
    }
  }
  if (prompt === undefined) throw invalid("Missing required input: 'text_input'");
  const user = id.trim() === '' ? {} : { user: id };
  return {
    body: { prompt, stream: isStream, ...user, ...readFields(parameters) },
    timeoutMs: readTimeout(parameters.timeout),
  };
}

function readPrompt({ datatype, shape, contents }: InferTensor, raw: Uint8Array | undefined): string {
  if (datatype !== 'BYTES') {
    throw invalid(`Expected 'text_input' to be of type BYTES for string input, got "${datatype.slice(0, 64)}"`);
  }
  const isOne = (shape.length === 1 || shape.length === 2) && shape.every((dimension) => dimension === 1);
  if (!isOne) throw invalid(`Expected 'text_input' to have shape [1], got [${shape.join(', ')}]`);
  if (contents !== undefined) {
    const [first] = framedStrings(contents.bytes?.framed ?? new Uint8Array(0));
    if (first === undefined) throw invalid("'text_input' must contain exactly one element");
    return textOf(first);
  }
  if (raw === undefined) throw invalid("Missing raw input for 'text_input'");
  if (raw.length < 4) throw invalid("'text_input' raw input must be length-prefixed (>= 4 bytes)");
  const length = new DataView(raw.buffer, raw.byteOffset, raw.byteLength).getUint32(0, true);
  if (length !== raw.length - 4) {
    throw invalid(`'text_input' raw input has ${raw.length - 4} bytes behind a length of ${length}`);
  }
  return textOf(raw.subarray(4));
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('utf8');
}

function readStream({ name, datatype, shape, contents }: InferTensor, raw: Uint8Array | undefined): boolean {
  if (datatype !== 'BOOL') {
    throw invalid(`Expected '${name}' to be of type BOOL, got "${datatype.slice(0, 64)}"`);
  }
  if (shape.length !== 1 || shape[0] !== 1) {
    throw invalid(`Expected '${name}' to have shape [1], got [${shape.join(', ')}]`);
  }
  if (contents !== undefined) {
    const [first] = contents.bool ?? [];
    if (first === undefined) throw invalid(`'${name}' must contain exactly one element`);
    return first !== 0;
  }
  if (raw === undefined) throw invalid(`Missing raw input for '${name}'`);
  if (raw[0] === undefined) throw invalid(`'${name}' raw input must contain at least one byte`);
  return raw[0] !== 0;
}

function readFields(parameters: InferParameters): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [name, parameter] of Object.entries(parameters)) {
    if (Object.hasOwn(FIELDS, name)) fields[name] = fieldValue(name, FIELDS[name]!, parameter);
  }
  const priority = readPriority(parameters.priority);
  if (priority !== undefined) fields.nvext = { agent_hints: { strict_priority: priority } };
  return fields;
}

function fieldValue(
  name: string,
  kind: (typeof FIELDS)[string],
  parameter: InferParameter | undefined,
): number | boolean | string | readonly unknown[] {
  const value = plainValue(parameter);
  if (kind === 'stop') {
    if (typeof value === 'string') return value.trimStart().startsWith('[') ? stopList(value) : value;
    throw wrongKind(name, 'a string, or a JSON list of them in a string');
  }
  if (typeof value !== kind) throw wrongKind(name, `a ${kind}`);
  return value as number | boolean | string; // its type was checked
}

/** Reads a list of stop sequences. A single sequence may itself begin with a bracket. */
function stopList(text: string): string | readonly unknown[] {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list : text;
  } catch {
    return text;
  }
}

function readPriority(parameter: InferParameter | undefined): number | undefined {
  if (parameter === undefined) return undefined;
  const level = plainValue(parameter);
  if (typeof level !== 'number' || !Number.isInteger(level) || level < 0 || level >= TIERS) {
    throw wrongKind('priority', 'a whole number from 0');
  }
  return level === 0 ? undefined : TIERS - level;
}

function readTimeout(parameter: InferParameter | undefined): number | undefined {
  if (parameter === undefined) return undefined;
  const timeout = plainValue(parameter);
  if (typeof timeout !== 'number' || !(timeout >= 0)) throw wrongKind('timeout', 'a number of microseconds');
  return timeout === 0 ? undefined : timeout / MICROSECONDS_PER_MS;
}

function plainValue(parameter: InferParameter | undefined): number | boolean | string | undefined {
  if (parameter === undefined) return undefined;
  const [value] = Object.values(parameter) as readonly (number | bigint | boolean | string)[];
  return typeof value === 'bigint' ? Number(value) : value;
}

function wrongKind(name: string, allowed: string): ServeError {
  return invalid(`Parameter '${name}' must be ${allowed}`);
}
