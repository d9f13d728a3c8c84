import { asU64, asWholeNumber, isRecord, type UnknownRecord } from '../records/index.ts';
import { type BlockHashes, hashBlocks } from '../tokens/index.ts';

/** A refusal of a request by one of the services: a status, and a line with the reason. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly status: 400 | 404 | 405 | 409 | 413 | 415 | 422 | 429 | 499 | 500 | 503;

  constructor(status: ServiceError['status'], message: string) {
    super(message);
    this.status = status;
  }
}

/** Routing group of requests that name none. */
export const DEFAULT_GROUP = 'default';

const U32_MAX = 2 ** 32 - 1;
const I64_MIN = -(1n << 63n);
const I64_MAX = (1n << 63n) - 1n;

/** Type of a field and how to read it; undefined means that the value does not have this type. */
type Reader<T> = readonly [expected: string, read: (value: unknown) => T | undefined];

const TEXT: Reader<string> = ['a string', (value) => (typeof value === 'string' ? value : undefined)];
const BOOLEAN: Reader<boolean> = ['true or false', (value) => (typeof value === 'boolean' ? value : undefined)];
const NUMBER: Reader<number> = ['a number', (value) => (typeof value === 'number' ? value : undefined)];
const U32: Reader<number> = ['u32', asU32];
const COUNT: Reader<number> = ['a whole number from 0 to 2^53 - 1', (value) => asWholeNumber(value)];
const U64: Reader<bigint> = ['u64', asU64];

/**
 * The fields of a request's body, each read once with its type. A missing field or one of another type is refused with
 * status 422 and its name, as in all four of Dynamo's services.
 */
export class BodyFields {
  readonly #fields: UnknownRecord;

  /** @param body as `parseExactJson` returns it */
  constructor(body: unknown) {
    if (!isRecord(body)) throw unprocessable('expected a JSON object');
    this.#fields = body;
  }

  /** Returns whether the field is present and not null. */
  has(name: string): boolean {
    return this.#value(name) !== undefined;
  }

  text(name: string): string {
    return this.#required(name, TEXT);
  }

  optionalText(name: string): string | undefined {
    return this.#optional(name, TEXT);
  }

  boolean(name: string): boolean | undefined {
    return this.#optional(name, BOOLEAN);
  }

  optionalNumber(name: string): number | undefined {
    return this.#optional(name, NUMBER);
  }

  u32(name: string): number {
    return this.#required(name, U32);
  }

  optionalU32(name: string): number | undefined {
    return this.#optional(name, U32);
  }

  count(name: string): number {
    return this.#required(name, COUNT);
  }

  optionalCount(name: string): number | undefined {
    return this.#optional(name, COUNT);
  }

  /** Returns a 64-bit id as lower-case hex, the form in which routers identify workers. */
  id(name: string): string {
    return this.#required(name, U64).toString(16);
  }

  optionalIds(name: string): readonly string[] | undefined {
    return this.#optionalList(name, U64)?.map((id) => id.toString(16));
  }

  optionalTexts(name: string): readonly string[] | undefined {
    return this.#optionalList(name, TEXT);
  }

  tokens(name: string): Uint32Array {
    const list = this.#list(name);
    const tokens = new Uint32Array(list.length);
    for (let at = 0; at < list.length; at++) {
      const token = asU32(list[at]);
      if (token === undefined) throw wrongType(`${name}[${at}]`, 'u32');
      tokens[at] = token;
    }
    return tokens;
  }

  /** Returns hashes, which are written as signed 64-bit integers, as pairs of u32 halves, the low half first. */
  hashes(name: string): Uint32Array {
    const list = this.#list(name);
    const pairs = new Uint32Array(2 * list.length);
    for (let at = 0; at < list.length; at++) {
      const hash = readI64(list[at]);
      if (hash === undefined) throw wrongType(`${name}[${at}]`, 'i64');
      pairs[2 * at] = Number(BigInt.asUintN(32, hash));
      pairs[2 * at + 1] = Number(BigInt.asUintN(32, hash >> 32n));
    }
    return pairs;
  }

  /** Returns an object within the body. */
  optionalObject(name: string): BodyFields | undefined {
    const value = this.#value(name);
    if (value === undefined) return undefined;
    if (!isRecord(value)) throw wrongType(name, 'an object');
    return new BodyFields(value);
  }

  /** Returns a map of strings, such as `{"0": "tcp://..."}`. */
  optionalTextMap(name: string): Readonly<Record<string, string>> | undefined {
    const value = this.#value(name);
    if (value === undefined) return undefined;
    if (!isRecord(value) || !Object.values(value).every((entry) => typeof entry === 'string')) {
      throw wrongType(name, 'an object of strings');
    }
    return value as Record<string, string>; // every entry was checked
  }

  /** Returns every field; each must be a number. */
  numbers(): Readonly<Record<string, number>> {
    const numbers: Record<string, number> = {};
    for (const name of Object.keys(this.#fields)) numbers[name] = this.#required(name, NUMBER);
    return numbers;
  }

  #value(name: string): unknown {
    return (Object.hasOwn(this.#fields, name) ? this.#fields[name] : undefined) ?? undefined;
  }

  #optional<T>(name: string, [expected, read]: Reader<T>): T | undefined {
    const value = this.#value(name);
    if (value === undefined) return undefined;
    const known = read(value);
    if (known === undefined) throw wrongType(name, expected);
    return known;
  }

  #required<T>(name: string, reader: Reader<T>): T {
    const value = this.#optional(name, reader);
    if (value === undefined) throw unprocessable(`missing field \`${name}\``);
    return value;
  }

  #list(name: string): readonly unknown[] {
    const value = this.#value(name);
    if (value === undefined) throw unprocessable(`missing field \`${name}\``);
    if (!Array.isArray(value)) throw wrongType(name, 'a list');
    return value;
  }

  #optionalList<T>(name: string, [expected, read]: Reader<T>): readonly T[] | undefined {
    if (!this.has(name)) return undefined;
    return this.#list(name).map((entry, at) => {
      const known = read(entry);
      if (known === undefined) throw wrongType(`${name}[${at}]`, expected);
      return known;
    });
  }
}

function asU32(value: unknown): number | undefined {
  return asWholeNumber(value, U32_MAX);
}

function readI64(value: unknown): bigint | undefined {
  return inRange(integerOf(value), I64_MIN, I64_MAX);
}

function integerOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value;
  return Number.isSafeInteger(value) ? BigInt(value as number) : undefined;
}

function inRange(value: bigint | undefined, min: bigint, max: bigint): bigint | undefined {
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

function wrongType(name: string, expected: string): ServiceError {
  return unprocessable(`${name}: expected ${expected}`);
}

function unprocessable(what: string): ServiceError {
  return new ServiceError(422, `Failed to deserialize the JSON body into the target type: ${what}`);
}

/** The part of a prompt that routing needs. */
export interface Prompt {
  readonly hashes: BlockHashes;
  readonly tokens: number;
}

/**
 * Returns the prompt of a body: from its tokens, or from the hashes of its blocks and its length.
 * @throws ServiceError 400, 422
 */
export function promptOf(body: BodyFields, blockSizeTokens: number): Prompt {
  if (body.has('token_ids')) {
    const tokens = body.tokens('token_ids');
    const [loraName, cacheSalt] = [body.optionalText('lora_name'), body.optionalText('cache_salt')];
    return { hashes: hashBlocks(tokens, { blockSizeTokens, loraName, cacheSalt }), tokens: tokens.length };
  }
  const local = body.hashes('block_hashes');
  const sequence = body.hashes('sequence_hashes');
  const tokens = body.count('isl_tokens');
  if (local.length !== sequence.length)
    throw new ServiceError(400, 'block_hashes and sequence_hashes differ in length');
  return { hashes: { local, sequence }, tokens };
}

/** From this number of digits on, an integer may be inexact as a JavaScript number. */
const LONG_INTEGER = /\d{16}/;
/** Matches each string and each number of a JSON text. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;
const WHOLE = /^-?\d{16,}$/;
/** Marks long integers while the built-in parser reads them as strings. A client may send text that begins so too. */
const MARK = '\u0000integer:';
const MARK_ESCAPED = '\\u0000integer:';

/**
 * Parses JSON in which 64-bit integers are plain numbers, as Dynamo writes them: integers that JavaScript would round
 * become bigints, all others stay numbers. The built-in parser alone cannot do this: it rounds before a reviver is
 * called.
 *
 * @throws SyntaxError for text that is not JSON
 */
export function parseExactJson(text: string): unknown {
  const plain: unknown = JSON.parse(text); // this also checks that the text is JSON, with the parser's own message
  if (!LONG_INTEGER.test(text)) return plain;
  const marked = text.replace(TOKENS, (token) => (WHOLE.test(token) ? `"${MARK_ESCAPED}${token}"` : token));
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(MARK) ? unmarked(value) : value,
  );
}

function unmarked(marked: string): number | bigint | string {
  const digits = marked.slice(MARK.length);
  if (!WHOLE.test(digits)) return marked; // it is a client's text
  const exact = BigInt(digits);
  const number = Number(exact);
  return Number.isSafeInteger(number) ? number : exact;
}

/** Returns JSON text with bigints as plain numbers, and everything else as the built-in writer formats it. */
export function writeExactJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map((entry) => writeExactJson(entry ?? null)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${writeExactJson(field)}`).join(',')}}`;
}
