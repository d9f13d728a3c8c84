import { LIMITS, overLimit, type RefusingLimit, type ServeError } from '../../errors/index.ts';

/**
 * What the pieces of a large JSON text are made into: `JSON.parse` reads each, and nothing here reads what it would not.
 */

/** With the `u` flag pairs read as one character, so only halves match. */
const LONE_SURROGATE = /\p{Surrogate}/u;
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** An object or a list that is filled piece by piece. */
type Container = unknown[] | Record<string, unknown>;

/** True when `text`, of which `value` was read, holds an escape of half a character. */
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

/** A list gets room ahead from so many elements on. */
const ROOM_ELEMENTS_MIN = 2048;
/** How many times larger a list may get at once. */
const ROOM_GROWTH = 8;

/** An object or a list while it is filled. */
export class Filling {
  readonly target: Container;
  /** Elements of a list; its `length` may be more until `close`. */
  #elements = 0;

  constructor(isObject: boolean) {
    this.target = isObject ? {} : [];
  }

  /**
   * Adds the members that `text` lists.
   * @param elementsAhead makes room for so many, about, behind these: lists grow by copies, and what they leave behind is twice
   * the size of a list that only grows by half each time
   * @returns what was read
   * @throws SyntaxError for no members: between two commas, or a comma and the end, there is one at least
   */
  addMembers(text: string, elementsAhead: (added: number) => number): unknown {
    const { target } = this;
    if (Array.isArray(target)) {
      const added = JSON.parse(`[${text}]`) as unknown[];
      if (added.length === 0) throw new SyntaxError('an element is missing');
      const all = this.#elements + added.length;
      if (all > target.length && all >= ROOM_ELEMENTS_MIN)
        target.length = Math.min(all + elementsAhead(added.length), all * ROOM_GROWTH);
      for (let at = 0; at < added.length; at++) target[this.#elements + at] = added[at];
      this.#elements = all;
      return added;
    }
    const members = JSON.parse(`{${text}}`) as Record<string, unknown>;
    let isEmpty = true;
    for (const key in members) {
      put(target, key, members[key]);
      isEmpty = false;
    }
    if (isEmpty) throw new SyntaxError('a member is missing');
    return members;
  }

  /**
   * Adds `child`, whose text begins where `before` ends: there stands its key, or nothing in a list.
   * @returns what was read
   */
  addChild(before: string, child: unknown): unknown {
    const { target } = this;
    if (Array.isArray(target)) {
      JSON.parse(`[${before}null]`); // nothing but white space stands there
      target[this.#elements++] = child;
      return undefined;
    }
    const member = JSON.parse(`{${before}null}`) as Record<string, unknown>;
    const [key] = Object.keys(member);
    if (key === undefined) throw new SyntaxError('a key is missing');
    put(target, key, child);
    return member;
  }

  /** Takes back the room that was not needed. */
  close(): void {
    if (Array.isArray(this.target) && this.target.length > this.#elements) this.target.length = this.#elements;
  }
}

/** As `JSON.parse` does it: an assignment to `__proto__` would set the prototype. */
function put(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') target[key] = value;
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Whatever its size, a body may take so much; and half as much again as its size, when that is more. */
const BYTES_FREE = LIMITS.body_memory.max;
const BYTES_PER_BODY_BYTE = 1.5;
const CONTAINERS_MAX = LIMITS.body_containers.max;
const ELEMENTS_MAX = LIMITS.body_elements.max;
/** What values take in memory beside their text, about. */
const CONTAINER_BYTES = 64;
const STRING_BYTES = 24;
const SLOT_BYTES = 8;
/** A key that was not there before: its text, and the shape of the objects that have it. */
const NEW_KEY_BYTES = 150;
const KNOWN_KEYS = 1024;
/** An object of so many members becomes a hash table, in which each takes more. */
const HASHED_MEMBERS_MIN = 1000;
const HASHED_MEMBER_BYTES = 80;

/** What a text may hold. */
interface JsonLimits {
  /** Memory of its values. */
  readonly bytes: number;
  readonly containers: number;
  /** Of one list. */
  readonly elements: number;
}

/** For what was written here. */
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
 * Estimates what a JSON text takes once it is read, while it is looked through: megabytes of `{},` would become twenty
 * times as many.
 */
export class JsonMemory {
  readonly #bodyBytes: number;
  readonly #limits: JsonLimits;
  #bytes = 0;
  #values = 0;
  #containers = 0;
  /** Hashes of keys, each in the one place where it can be. */
  readonly #keys = new Int32Array(KNOWN_KEYS);

  constructor(bodyBytes: number, limits: JsonLimits = limitsOfBody(bodyBytes)) {
    this.#bodyBytes = bodyBytes;
    this.#limits = limits;
  }

  /** @throws ServeError `request_too_large` */
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

  /** A key between two quotes. One that comes again and again takes nothing. */
  key(bytes: Uint8Array, opensAt: number, closesAt: number): void {
    let hash = closesAt - opensAt;
    for (let at = opensAt + 1; at < closesAt; at++) hash = (Math.imul(hash, 31) + (bytes[at] as number)) | 0;
    const place = hash & (KNOWN_KEYS - 1);
    if (this.#keys[place] === hash) return;
    this.#keys[place] = hash;
    this.#bytes += NEW_KEY_BYTES + closesAt - opensAt;
  }

  /** One more value in a list that has so many. @throws ServeError `request_too_large` */
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

  /** One more value in an object that has so many. */
  member(membersBefore: number): void {
    this.#values++;
    this.#bytes += membersBefore < HASHED_MEMBERS_MIN ? SLOT_BYTES : HASHED_MEMBER_BYTES;
  }

  /**
   * @param field root key of what is being read
   * @throws ServeError `request_too_large` as soon as it is certain to be too much.
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
