/** A record whose fields have not been checked yet. */
export type UnknownRecord = Readonly<Record<string, unknown>>;

const DECIMAL = /^\d{1,20}$/;

const U64_MAX = (1n << 64n) - 1n;

/**
 * One u64 and its halves, low half first on every machine that Node has builds for. Through this view a bigint becomes
 * two numbers without shifts and masks, each of which would create another bigint.
 */
const whole = new BigUint64Array(1);
const halves = new Uint32Array(whole.buffer);

/** Largest number of characters of a text that an error shows. */
const SHOWN_LENGTH_MAX = 40;

/**
 * Reads values that must be of a kind. For any other value it throws the caller's own error, with a text that names the
 * field, what it may hold and what it does hold.
 *
 *     const read = new RecordReader((what) => workerError('BackendProtocol', what));
 *     const fields = read.record(body, 'message');
 *     const position = read.wholeNumber(fields.position, 'position'); // "position must be a whole number, but is -1"
 */
export class RecordReader {
  readonly #refusal: (what: string) => Error;

  /** @param refusal makes the error to throw */
  constructor(refusal: (what: string) => Error) {
    this.#refusal = refusal;
  }

  record(value: unknown, name: string): UnknownRecord {
    if (isRecord(value)) return value;
    throw this.refuse(value, name, 'a record');
  }

  list(value: unknown, name: string, lengthMax = Number.POSITIVE_INFINITY): readonly unknown[] {
    if (!Array.isArray(value)) throw this.refuse(value, name, 'a list');
    if (value.length > lengthMax) throw this.refuse(value, name, `a list of at most ${lengthMax}`);
    return value;
  }

  text(value: unknown, name: string, lengthMax = Number.POSITIVE_INFINITY): string {
    if (typeof value !== 'string') throw this.refuse(value, name, 'a text');
    if (value.length > lengthMax) throw this.refuse(value, name, `a text of at most ${lengthMax} characters`);
    return value;
  }

  texts(value: unknown, name: string): readonly string[] {
    if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value;
    throw this.refuse(value, name, 'a list of texts');
  }

  /** Reads a whole number from 0 on, as `asWholeNumber` does. */
  wholeNumber(value: unknown, name: string): number {
    const number = asWholeNumber(value);
    if (number === undefined) throw this.refuse(value, name, 'a whole number');
    return number;
  }

  /** Reads an exact u64, as `asU64` does. */
  u64(value: unknown, name: string): bigint {
    const exact = asU64(value);
    if (exact === undefined) throw this.refuse(value, name, 'an exact u64');
    return exact;
  }

  /** Reads a list of exact u64 as pairs of u32 halves, low half first. */
  u64Pairs(value: unknown, name: string, countMax: number): Uint32Array {
    const list = this.list(value, name, countMax);
    const pairs = new Uint32Array(2 * list.length);
    for (let at = 0; at < list.length; at++) this.writeU64(pairs, at, list[at], name);
    return pairs;
  }

  /** Writes an exact u64 as pair number `at`. */
  writeU64(pairs: Uint32Array, at: number, value: unknown, name: string): void {
    const exact = asU64(value);
    if (exact === undefined) throw this.refuse(value, `${name}[${at}]`, 'an exact u64');
    whole[0] = exact;
    pairs[2 * at] = halves[0]!;
    pairs[2 * at + 1] = halves[1]!;
  }

  /** Returns the error for a value that is not `allowed`, for kinds that have no reader here. */
  refuse(value: unknown, name: string, allowed: string): Error {
    return this.#refusal(`${name} must be ${allowed}, but is ${shown(value)}`);
  }
}

function shown(value: unknown): string {
  if (value === undefined) return 'missing';
  if (typeof value === 'string') {
    const start = JSON.stringify(value.slice(0, SHOWN_LENGTH_MAX));
    return value.length > SHOWN_LENGTH_MAX ? `${start}... of ${value.length} characters` : start;
  }
  if (Array.isArray(value)) return `a list of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** Whether `value` is a record: an object that is neither null nor a list. */
export function isRecord(value: unknown): value is UnknownRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns `value` as a record, or undefined if it is something else. */
export function asRecord(value: unknown): UnknownRecord | undefined {
  return isRecord(value) ? value : undefined;
}

/**
 * Returns a whole number from 0 to `max`, or undefined for everything else. Some codecs read a long integer as a
 * bigint; such a value counts if a number holds it exactly.
 *
 * @param max at most, and by default, 2^53 - 1
 */
export function asWholeNumber(value: unknown, max: number = Number.MAX_SAFE_INTEGER): number | undefined {
  const number = typeof value === 'bigint' ? Number(value) : value;
  return Number.isSafeInteger(number) && (number as number) >= 0 && (number as number) <= max
    ? (number as number)
    : undefined;
}

/**
 * Returns a u64 from decimal text as our own writers make it, from a bigint, or from an exact number. Returns undefined
 * for everything else, also for a number that some codec may have rounded.
 */
export function asU64(value: unknown): bigint | undefined {
  const exact = typeof value === 'string' && DECIMAL.test(value) ? BigInt(value) : value;
  if (typeof exact === 'bigint') return exact >= 0n && exact <= U64_MAX ? exact : undefined;
  return typeof exact === 'number' && Number.isSafeInteger(exact) && exact >= 0 ? BigInt(exact) : undefined;
}

/**
 * Converts an instance id (hex, as Stator writes it) to the u64 that records carry; records that pass a codec carry it
 * as decimal text.
 */
export function u64OfHex(hexId: string): bigint {
  return BigInt(`0x${hexId}`);
}
