import { LIMITS, overLimit, type RefusingLimit, type ServeError } from '../../errors/index.ts';

/**
 * Values built from the pieces of a large JSON text: `JSON.parse` reads each piece, so the same texts are accepted as
 * by it.
 */

/** With the `u` flag a pair is read as one character, so only halves match. */
const LONE_SURROGATE = /\p{Surrogate}/u;
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** Reads a JSON text. @throws SyntaxError */
export type ParseJson = (text: string) => unknown;

/** Object or list that is filled piece by piece. */
type Container = unknown[] | Record<string, unknown>;

/** Returns true when `text`, from which `value` was read, has an escape of half a character. */
export function hasLoneSurrogate(text: string, value: unknown): boolean {
  return text.includes('\\u') && SURROGATE_ESCAPE.test(text) && holdsLoneSurrogate(value);
}

function holdsLoneSurrogate(value: unknown): boolean {
  if (typeof value === 'string') return LONE_SURROGATE.test(value);
  if (typeof value !== 'object' || value === null) return false;
  for (const [key, nested] of Object.entries(value))
    if (LONE_SURROGATE.test(key) || holdsLoneSurrogate(nested)) return true;
  return false;
}

/** Length from which a list gets spare capacity. */
const ROOM_ELEMENTS_MIN = 2048;
/** Factor by which a list may grow at once. */
const ROOM_GROWTH = 8;

/** Object or list while it is being filled. */
export class Filling {
  readonly target: Container;
  readonly #parse: ParseJson;
  /** Number of elements in a list; its `length` may be larger until `close`. */
  #elements = 0;

  constructor(isObject: boolean, parse: ParseJson) {
    this.#parse = parse;
    this.target = isObject ? {} : [];
  }

  /**
   * Adds the members listed in `text`.
   * @param elementsAhead estimates how many elements follow, so that capacity is reserved. Lists grow by copying, and
   * the copies of a list that grows by half each time add up to twice its size.
   * @returns the members.
   * @throws SyntaxError for no members: between two commas, or a comma and the end, there must be at least one
   */
  addMembers(text: string, elementsAhead: (added: number) => number): unknown {
    const { target } = this;
    if (Array.isArray(target)) {
      const added = this.#parse(`[${text}]`) as unknown[];
      if (added.length === 0) throw new SyntaxError('an element is missing');
      const all = this.#elements + added.length;
      if (all > target.length && all >= ROOM_ELEMENTS_MIN)
        target.length = Math.min(all + elementsAhead(added.length), all * ROOM_GROWTH);
      for (let at = 0; at < added.length; at++) target[this.#elements + at] = added[at];
      this.#elements = all;
      return added;
    }
    const members = this.#parse(`{${text}}`) as Record<string, unknown>;
    let isEmpty = true;
    for (const key in members) {
      put(target, key, members[key]);
      isEmpty = false;
    }
    if (isEmpty) throw new SyntaxError('a member is missing');
    return members;
  }

  /**
   * Adds `child`, whose text begins where `before` ends; `before` holds its key, or nothing in a list.
   * @returns the member
   */
  addChild(before: string, child: unknown): unknown {
    const { target } = this;
    if (Array.isArray(target)) {
      JSON.parse(`[${before}null]`); // only white space may stand there
      target[this.#elements++] = child;
      return undefined;
    }
    const member = JSON.parse(`{${before}null}`) as Record<string, unknown>;
    const [key] = Object.keys(member);
    if (key === undefined) throw new SyntaxError('a key is missing');
    put(target, key, child);
    return member;
  }

  /** Removes unused capacity. */
  close(): void {
    if (Array.isArray(this.target) && this.target.length > this.#elements) this.target.length = this.#elements;
  }
}

/** Sets a member as `JSON.parse` does: an assignment to `__proto__` would set the prototype. */
function put(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') target[key] = value;
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Memory that any body may take; a body may take one and a half times its size if that is more. */
const BYTES_FREE = LIMITS.body_memory.max;
const BYTES_PER_BODY_BYTE = 1.5;
const CONTAINERS_MAX = LIMITS.body_containers.max;
const ELEMENTS_MAX = LIMITS.body_elements.max;
/** Estimated memory of values besides their text. */
const CONTAINER_BYTES = 64;
const STRING_BYTES = 24;
const SLOT_BYTES = 8;
/** Memory of a new key: its text, and the shape of the objects that have it. */
const NEW_KEY_BYTES = 150;
const KNOWN_KEYS = 1024;
/** Number of members from which an object becomes a hash table, in which each member takes more. */
const HASHED_MEMBERS_MIN = 1000;
const HASHED_MEMBER_BYTES = 80;

/** Limits of a text's content. */
interface JsonLimits {
  /** Memory of its values. */
  readonly bytes: number;
  readonly containers: number;
  /** Elements of one list. */
  readonly elements: number;
}

/** For records of a worker: those of `MsgpackReader`. */
export const RECORD_LIMITS: JsonLimits = { bytes: Number.POSITIVE_INFINITY, containers: 1 << 20, elements: 1 << 20 };

/** For texts that this process wrote. */
export const NO_LIMITS: JsonLimits = {
  bytes: Number.POSITIVE_INFINITY,
  containers: Number.POSITIVE_INFINITY,
  elements: Number.POSITIVE_INFINITY,
};

function limitsOfBody(bytes: number): JsonLimits {
  const memory = Math.max(BYTES_FREE, Math.floor(bytes * BYTES_PER_BODY_BYTE));
  return { bytes: memory, containers: CONTAINERS_MAX, elements: ELEMENTS_MAX };
}

/**
 * Estimates the memory of a JSON text's values while it is scanned: megabytes of `{},` would take twenty times as many.
 */
export class JsonMemory {
  readonly #bodyBytes: number;
  readonly #limits: JsonLimits;
  #bytes = 0;
  #values = 0;
  #containers = 0;
  /** Hashes of keys, each in its only possible slot. */
  readonly #keys = new Int32Array(KNOWN_KEYS);

  constructor(bodyBytes: number, limits: JsonLimits = limitsOfBody(bodyBytes)) {
    this.#bodyBytes = bodyBytes;
    this.#limits = limits;
  }

  /** Counts a container. @throws ServeError `request_too_large` */
  container(field: string): void {
    this.#bytes += CONTAINER_BYTES;
    if (++this.#containers > this.#limits.containers) {
      throw tooMany(
        'body_containers',
        field,
        `a body may hold at most ${this.#limits.containers} objects and arrays; more are in it up to \`${field}\``,
      );
    }
  }

  string(lengthBytes: number): void {
    this.#bytes += STRING_BYTES + lengthBytes;
  }

  /** Counts a key between two quotes. A repeated key takes no memory. */
  key(bytes: Uint8Array, opensAt: number, closesAt: number): void {
    let hash = closesAt - opensAt;
    for (let at = opensAt + 1; at < closesAt; at++) hash = (Math.imul(hash, 31) + (bytes[at] as number)) | 0;
    const place = hash & (KNOWN_KEYS - 1);
    if (this.#keys[place] === hash) return;
    this.#keys[place] = hash;
    this.#bytes += NEW_KEY_BYTES + closesAt - opensAt;
  }

  /** Counts one more value in a list that has `elementsBefore`. @throws ServeError `request_too_large` */
  element(elementsBefore: number, field: string): void {
    this.#values++;
    this.#bytes += SLOT_BYTES;
    if (elementsBefore < this.#limits.elements) return;
    throw tooMany(
      'body_elements',
      field,
      `\`${field}\` holds an array of more than ${this.#limits.elements} elements, which is the most`,
    );
  }

  /** Counts one more value in an object that has `membersBefore`. */
  member(membersBefore: number): void {
    this.#values++;
    this.#bytes += membersBefore < HASHED_MEMBERS_MIN ? SLOT_BYTES : HASHED_MEMBER_BYTES;
  }

  /**
   * Checks the memory used so far.
   * @param field root key that is being read
   * @throws ServeError `request_too_large` as soon as the limit is certainly exceeded
   */
  check(field: string): void {
    if (this.#bytes <= this.#limits.bytes) return;
    throw tooMany(
      'body_memory',
      field,
      `\`${field}\` holds too many small values: the first ${this.#values} of a body of ${this.#bodyBytes} bytes take more ` +
        `than the ${this.#limits.bytes} bytes of memory that it may take`,
    );
  }
}

function tooMany(limit: RefusingLimit, field: string, message: string): ServeError {
  return overLimit(limit, message, { param: field === '' ? undefined : field });
}
