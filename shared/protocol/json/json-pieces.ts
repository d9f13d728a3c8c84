/**
 * What the pieces of a large JSON text are made into: `JSON.parse` reads each, and nothing here reads what it would not.
 */

/** With the `u` flag pairs read as one character, so only halves match. */
const LONE_SURROGATE = /\p{Surrogate}/u;
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** An object or a list that is filled piece by piece. */
export type Container = unknown[] | Record<string, unknown>;

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
