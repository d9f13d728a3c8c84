import type * as z from 'zod';
import { assertNever, LIMITS, misspeltName, overLimit, ServeError } from '../../errors/index.ts';
import { DESERIALIZE_LEAD_IN, type JsonBody } from '../json/json-body.ts';
import type { ChatBody, CheckedChat, CompletionsBody } from './chat-schema.ts';
import { findFault, type ShapeFault } from './shape-check.ts';
import { RANGES, type Range } from './shared-fields.ts';

/**
 * Creates the error for a value that the contract does not allow; `message` is Dynamo's text, `param` the JSON path.
 */
export function invalidValue(message: string, param: string): ServeError {
  return new ServeError('invalid_value', message, { param });
}

/** Creates the error for a published key that would change the answer and that the product cannot honour. */
export function unsupported(key: string): ServeError {
  return new ServeError('unsupported_parameter', `\`${key}\` is not supported.`, { param: key });
}

/** Refuses `stream_options` without a stream. */
export function checkStreamOptions(body: ChatBody | CompletionsBody): void {
  if (body.stream_options != null && body.stream !== true) {
    throw invalidValue("The 'stream_options' field is only allowed when 'stream' is set to true.", 'stream_options');
  }
}

/** Number of keys that an error names, so that a body of unknown keys is not sent back whole. */
const NAMED_KEYS_MAX = 8;
const KEY_CHARS_MAX = 100;

/**
 * Refuses root keys that belong neither to OpenAI nor to this product, each with the key of `known` that was probably
 * meant.
 * @throws ServeError `unknown_parameter`
 */
export function refuseUnknownKeys(unknown: readonly string[], known: Iterable<string>): void {
  const [first] = unknown;
  if (first === undefined) return;
  const candidates = [...known];
  const named = unknown.slice(0, NAMED_KEYS_MAX).map((key) => `\`${shownKey(key)}\`${didYouMean(key, candidates)}`);
  const more = unknown.length > NAMED_KEYS_MAX ? ` and ${unknown.length - NAMED_KEYS_MAX} more` : '';
  const message = `Unsupported parameter(s): ${named.join(', ')}${more}`;
  throw new ServeError('unknown_parameter', message, { param: shownKey(first) });
}

/** Returns a key for an error message, cut if it is too long for a name. */
function shownKey(key: string): string {
  return key.length <= KEY_CHARS_MAX ? key : `${key.slice(0, KEY_CHARS_MAX)}...`;
}

/** Returns ` (did you mean ...?)`, or nothing if the key does not resemble a candidate. */
function didYouMean(key: string, candidates: Iterable<string>): string {
  const nearest = misspeltName(key, candidates);
  return nearest === undefined ? '' : ` (did you mean \`${nearest}\`?)`;
}

export function checkModel(model: string): void {
  if (model.trim() === '') throw invalidValue('Model cannot be empty', 'model');
}

/** Bounds that a deployment sets. */
export interface BoundSettings {
  /** Most bytes of one stop sequence (`STATOR_STOP_MAX_BYTES`). */
  readonly stopBytesMax: number;
}

/**
 * Checks the numeric and text bounds that chat and completions share, in Dynamo's order.
 * @param stopField field in which the client sent its stop sequences
 */
export function checkSharedBounds(
  body: ChatBody | CheckedChat | CompletionsBody,
  { stopBytesMax }: BoundSettings,
  stopField = 'stop',
): void {
  checkRange(body.temperature, RANGES.temperature, 'Temperature', 'temperature');
  checkRange(body.top_p, RANGES.top_p, 'Top_p', 'top_p');
  checkRange(body.frequency_penalty, RANGES.frequency_penalty, 'Frequency penalty', 'frequency_penalty');
  checkRange(body.presence_penalty, RANGES.presence_penalty, 'Presence penalty', 'presence_penalty');
  if (body.logit_bias != null) checkLogitBias(body.logit_bias);
  if (body.max_tokens === 0) throw invalidValue('Max tokens must be greater than 0, got 0', 'max_tokens');
  checkRange(body.n, RANGES.n, 'n', 'n');
  if (body.stop != null) checkStop(body.stop, stopField, stopBytesMax);
  if (body.user != null && body.user.trim() === '') throw invalidValue('User ID cannot be empty', 'user');
  if (body.top_k != null && body.top_k < -1) {
    throw invalidValue('Top_k must be null or greater than or equal to -1', 'top_k');
  }
  checkRange(body.min_p, RANGES.min_p, 'Min_p', 'min_p');
  checkRepetitionPenalty(body.repetition_penalty);
  checkTokenIds(body.stop_token_ids, 'stop_token_ids');
  checkTokenIds(body.allowed_token_ids, 'allowed_token_ids');
  checkBadWords(body.bad_words_token_ids);
}

export function checkRange(value: number | null | undefined, [min, max]: Range, label: string, param: string): void {
  if (value == null || (value >= min && value <= max)) return;
  throw invalidValue(`${label} must be between ${min} and ${max}, got ${value}`, param);
}

function checkRepetitionPenalty(value: number | null | undefined): void {
  if (value == null || (value > 0 && value <= 2)) return;
  throw invalidValue(`Repetition penalty must be between 0 and 2, got ${value}`, 'repetition_penalty');
}

const TOKEN_ID_TEXT = /^(0|[1-9]\d{0,9})$/;

function checkLogitBias(bias: Readonly<Record<string, unknown>>): void {
  let tokens = 0;
  for (const token in bias) {
    const value = bias[token];
    if (++tokens > LIMITS.biases.max) {
      const message = `logit_bias: at most ${LIMITS.biases.max} tokens are allowed`;
      throw overLimit('biases', message, { param: 'logit_bias' });
    }
    const param = `logit_bias.${token}`;
    if (!TOKEN_ID_TEXT.test(token) || Number(token) > 4_294_967_295) {
      throw invalidValue('Logit bias key must be a non-negative 32-bit integer token id', param);
    }
    if (typeof value !== 'number') {
      throw invalidValue(`Logit bias value for token '${token}' must be a number, got ${JSON.stringify(value)}`, param);
    }
    checkRange(value, RANGES.logit_bias, `Logit bias for token '${token}'`, param);
  }
}

function checkStop(stop: string | readonly string[] | readonly number[], field: string, bytesMax: number): void {
  if (stop === '') throw invalidValue('Stop sequence cannot be empty', field);
  if (typeof stop === 'string') {
    checkStopLength(stop, field, bytesMax);
    return;
  }
  if (stop.length === 0) throw invalidValue('Stop sequences array cannot be empty', field);
  if (stop.length > LIMITS.stops.max) {
    const message = `At most ${LIMITS.stops.max} stop sequences are allowed, got ${stop.length}`;
    throw overLimit('stops', message, { param: field });
  }
  for (const [at, text] of stop.entries()) {
    if (text === '') throw invalidValue('Stop sequence cannot be empty', `${field}[${at}]`);
    if (typeof text === 'string') checkStopLength(text, `${field}[${at}]`, bytesMax);
  }
}

function checkStopLength(stop: string, param: string, bytesMax: number): void {
  if (stop.length * UTF8_BYTES_PER_UNIT <= bytesMax) return;
  const bytes = Buffer.byteLength(stop);
  if (bytes <= bytesMax) return;
  const message = `${param}: a stop sequence may have at most ${bytesMax} bytes (STATOR_STOP_MAX_BYTES), got ${bytes}`;
  throw overLimit('stop_bytes', message, { param });
}

/** Most bytes that one UTF-16 unit takes in UTF-8. */
const UTF8_BYTES_PER_UNIT = 3;

function checkTokenIds(value: unknown, param: string): void {
  if (value == null) return;
  if (Array.isArray(value) && value.length > LIMITS.listed_ids.max) {
    const message = `${param}: at most ${LIMITS.listed_ids.max} ids are allowed, got ${value.length}`;
    throw overLimit('listed_ids', message, { param });
  }
  if (isTokenIds(value)) return;
  throw invalidValue(`\`${param}\` must be an array of token IDs`, param);
}

function checkBadWords(value: unknown): void {
  if (value == null || (Array.isArray(value) && value.every(isTokenIds))) return;
  throw invalidValue('`bad_words_token_ids` must be an array of arrays of token IDs', 'bad_words_token_ids');
}

function isTokenIds(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0 && id <= 4_294_967_295);
}

/**
 * Checks the types of a body against its schema and returns the body, untouched, with its type.
 * @throws ServeError `missing_required_parameter`, `unknown_parameter` (inside `nvext`), `invalid_value`, or the body's
 * own refusal.
 */
export function requireShape<Schema extends z.ZodType>(schema: Schema, body: JsonBody): z.infer<Schema> {
  const fault = findFault(schema, body.value);
  if (body.refusal !== undefined && (fault === undefined || mayStandBehind(fault, body.value))) throw body.refusal;
  if (fault !== undefined) throw toShapeError(fault, [], body.refusal === undefined ? '' : 'at least ');
  return body.value as z.infer<Schema>; // the schemas transform nothing, so the input has the output's type
}

/**
 * Checks one value at `path` of a body, if the schema depends on the value itself.
 * @throws ServeError as `requireShape`
 */
export function requireShapeAt<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  path: readonly PropertyKey[],
): z.infer<Schema> {
  const fault = findFault(schema, value);
  if (fault !== undefined) throw toShapeError(fault, path);
  return value as z.infer<Schema>; // as above
}

/**
 * Returns whether the missing part may follow in a body that was not read to its end; it cannot if another element
 * follows.
 */
function mayStandBehind(fault: ShapeFault, body: unknown): boolean {
  if (fault.kind !== 'missing') return false;
  let value = body;
  for (const step of [...fault.path].reverse()) {
    if (Array.isArray(value) && Number(step) < value.length - 1) return false;
    value = (value as Readonly<Record<PropertyKey, unknown>> | undefined)?.[step];
  }
  return true;
}

/** Converts a fault to an error. @param orMore words before the length of an array that may be longer than is known */
function toShapeError(fault: ShapeFault, above: readonly PropertyKey[] = [], orMore = ''): ServeError {
  const path = [...above, ...fault.path.reverse()]; // the path was built from the value upwards
  const param = jsonPath(path);
  switch (fault.kind) {
    case 'unknown-key': {
      const key = shownKey(fault.key);
      const detail = `unknown field \`${key}\` in \`${param}\`${didYouMean(fault.key, fault.known)}`;
      return shapeError('unknown_parameter', detail, param === '' ? key : `${param}.${key}`);
    }
    case 'missing':
      if (param !== '') return shapeError('missing_required_parameter', `missing field \`${param}\``, param);
      return shapeError('invalid_value', fault.message, undefined);
    case 'no-arm':
      return shapeError('invalid_value', `${param}: did not match any allowed form of \`${lastKey(path)}\``, param);
    case 'too-many': {
      const { length, limit } = fault;
      const detail = `${param}: at most ${LIMITS[limit].max} elements are allowed, got ${orMore}${length}`;
      return overLimit(limit, `${DESERIALIZE_LEAD_IN}${detail}`, { param });
    }
    case 'wrong': {
      const text = param === '' ? fault.message : `${param}: ${fault.message}`;
      return shapeError('invalid_value', text, param === '' ? undefined : param);
    }
    default:
      return assertNever(fault);
  }
}

/** Error codes for wrong types of a body. */
type ShapeCode = 'invalid_value' | 'missing_required_parameter' | 'unknown_parameter';

/** Creates the error for a body whose types are wrong; `detail` says where and how. */
export function shapeError(code: ShapeCode, detail: string, param: string | undefined): ServeError {
  return new ServeError(code, `${DESERIALIZE_LEAD_IN}${detail}`, { param });
}

/** Writes a path such as `['messages', 0, 'content']` as `messages[0].content`. */
export function jsonPath(path: readonly PropertyKey[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else text += text === '' ? String(step) : `.${String(step)}`;
  }
  return text;
}

function lastKey(path: readonly PropertyKey[]): string {
  for (let at = path.length - 1; at >= 0; at--) if (typeof path[at] === 'string') return String(path[at]);
  return 'body';
}
