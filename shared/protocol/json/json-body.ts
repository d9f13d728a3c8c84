import { isAscii, isUtf8 } from 'node:buffer';
import { ServeError } from '../../errors/index.ts';
import { isRecord, parseExact } from '../../records/index.ts';
import { hasLoneSurrogate, JsonMemory, NO_LIMITS, RECORD_LIMITS } from './json-pieces.ts';
import { JsonReader, type ReadJson, SIZES } from './json-reader.ts';
import { repairJson, scanRoot } from './json-scan.ts';
import { noteSource } from './json-source.ts';
import { replaceLoneSurrogates } from './lone-surrogates.ts';

/** Beginning of every 400 about a body that does not parse into the request type */
export const DESERIALIZE_LEAD_IN = 'Failed to deserialize the JSON body into the target type: ';

/** Body that is valid JSON, perhaps only after repair. */
export interface JsonBody {
  readonly value: unknown;
  /**
   * Set when the body was not read to its end because its values would take too much memory; `value` is the part read
   * before. The caller reports the first fault of that part, or this one.
   */
  readonly refusal?: ServeError;
}

/** Limit of nesting, the same as Dynamo's; later walks over values rely on it not to overflow the stack. */
const DEPTH_MAX = 127;

/**
 * Reads a JSON body as it is; if that fails, with raw control bytes in strings escaped. When both fail, the first error
 * counts. Escapes of half a surrogate pair become U+FFFD. Invalid UTF-8 is refused, because it would be read as another
 * text than the client sent.
 * @throws ServeError `invalid_json`; `invalid_value` for a repeated root key.
 */
export function parseJsonBody(bytes: Uint8Array): JsonBody {
  const steps = readBody(bytes, readAtOnce);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/**
 * Does as `parseJsonBody` for bodies of megabytes, one piece at a time, so that other requests are served in between.
 * @param nextTurn resolves in a later turn of the event loop
 * @throws ServeError as `parseJsonBody`; a body of too many small values has a `refusal`
 */
export async function parseLargeJsonBody(bytes: Uint8Array, nextTurn: () => Promise<void>): Promise<JsonBody> {
  await nextTurn();
  return inTurns(readBody(bytes, readInPieces), nextTurn);
}

/** Runs all steps, each in a turn of its own. */
async function inTurns<T>(steps: Generator<void, T>, nextTurn: () => Promise<void>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await nextTurn();
  }
}

/**
 * Reads an object that this process wrote, of any size, one piece at a time.
 * @param nextTurn resolves in a later turn of the event loop
 * @throws SyntaxError
 */
export async function parseOwnJson(bytes: Buffer, nextTurn: () => Promise<void>): Promise<unknown> {
  const memory = new JsonMemory(bytes.length, NO_LIMITS);
  const { value } = await inTurns(new JsonReader(bytes, Number.POSITIVE_INFINITY, SIZES, memory).read(), nextTurn);
  return value;
}

/**
 * Reads an object or a list that a worker sent, one piece at a time. Whole numbers beyond 2^53, which a number may not
 * hold, become bigints.
 * @param nextTurn resolves in a later turn of the event loop
 * @throws SyntaxError
 * @throws ServeError for over 2^20 objects and lists, or elements of one
 */
export async function parseExactRecord(bytes: Buffer, nextTurn: () => Promise<void>): Promise<unknown> {
  await nextTurn();
  const memory = new JsonMemory(bytes.length, RECORD_LIMITS);
  const reader = new JsonReader(bytes, DEPTH_MAX, SIZES, memory, parseExact);
  const { value, refusal } = await inTurns(reader.read(), nextTurn);
  if (refusal !== undefined) throw refusal;
  return value;
}

/** Reads a text; throws SyntaxError if it is not JSON. */
type Read = (bytes: Buffer) => Generator<void, ReadJson>;

function* readBody(bytes: Uint8Array, read: Read): Generator<void, JsonBody> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(bytes)) throw new ServeError('invalid_json', `${DESERIALIZE_LEAD_IN}invalid UTF-8 in the body`);
  const strict = yield* attempt(buffer, read);
  if (typeof strict !== 'string') return inspect(yield* withoutHalves(strict, buffer, read));
  const repaired = yield* repairJson(buffer);
  if (repaired !== undefined) {
    const second = yield* attempt(repaired, read);
    if (typeof second !== 'string') return inspect(yield* withoutHalves(second, repaired, read));
  }
  throw new ServeError('invalid_json', `${DESERIALIZE_LEAD_IN}${strict}`);
}

/** Returns what was read, without halves of surrogate pairs. They are rare, so that the text may be read again. */
function* withoutHalves(first: ReadJson, bytes: Buffer, read: Read): Generator<void, ReadJson> {
  return first.hasLoneSurrogate ? yield* read(yield* replaceLoneSurrogates(bytes)) : first;
}

/** Returns the result of reading, or the error's message. */
function* attempt(bytes: Buffer, read: Read): Generator<void, ReadJson | string> {
  try {
    return yield* read(bytes);
  } catch (error) {
    if (error instanceof SyntaxError) return error.message;
    throw error;
  }
}

// biome-ignore lint/correctness/useYield: a body that is read at once has no steps
function* readAtOnce(bytes: Buffer): Generator<void, ReadJson> {
  const text = bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8'); // the same result for ASCII, in half the time
  const value: unknown = JSON.parse(text);
  const { duplicateKey, depth, lossDepth } = scanRoot(text);
  if (depth > DEPTH_MAX) throw new SyntaxError(`more than ${DEPTH_MAX} levels of nesting`);
  const mayLose = lossDepth > 1;
  const isHalf = hasLoneSurrogate(text, value);
  if (mayLose && hasPromptKey(value)) for (const _ of noteSource(bytes, value, PROMPT_KEYS));
  return { value, duplicateKey, hasLoneSurrogate: isHalf, mayLose, refusal: undefined };
}

/** Root keys whose content templates write as JSON: there the client's spelling of numbers and order of keys count. */
const PROMPT_KEYS: ReadonlySet<string> = new Set(['tools', 'messages', 'input']);

function* readInPieces(bytes: Buffer): Generator<void, ReadJson> {
  const read = yield* new JsonReader(bytes, DEPTH_MAX).read();
  if (read.refusal === undefined && read.mayLose && hasPromptKey(read.value))
    yield* noteSource(bytes, read.value, PROMPT_KEYS);
  return read;
}

/**
 * Returns whether a root key has a list of messages or tools; a long `input` may instead be a list of a million ids.
 */
function hasPromptKey(value: unknown): boolean {
  if (!isRecord(value)) return false;
  for (const key of PROMPT_KEYS) {
    const list = value[key];
    if (Array.isArray(list) && isRecord(list[0])) return true;
  }
  return false;
}

/** Refuses what `JSON.parse` accepts and the contract does not. */
function inspect(read: ReadJson): JsonBody {
  const { value, duplicateKey, refusal } = read;
  if (duplicateKey !== undefined) {
    throw new ServeError('invalid_value', `${DESERIALIZE_LEAD_IN}duplicate field \`${duplicateKey}\``, {
      param: duplicateKey,
    });
  }
  return { value, ...(refusal === undefined ? {} : { refusal }) };
}
