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

/**
 * Adds the members that `text` lists to `target`.
 * @returns what was read
 * @throws SyntaxError for no members: between two commas, or a comma and the end, there is one at least
 */
export function addMembers(target: Container, text: string): unknown {
  if (Array.isArray(target)) {
    const elements = JSON.parse(`[${text}]`) as unknown[];
    if (elements.length === 0) throw new SyntaxError('an element is missing');
    for (let at = 0; at < elements.length; at++) target.push(elements[at]);
    return elements;
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
export function addChild(target: Container, before: string, child: unknown): unknown {
  if (Array.isArray(target)) {
    JSON.parse(`[${before}null]`); // nothing but white space stands there
    target.push(child);
    return undefined;
  }
  const member = JSON.parse(`{${before}null}`) as Record<string, unknown>;
  const [key] = Object.keys(member);
  if (key === undefined) throw new SyntaxError('a key is missing');
  put(target, key, child);
  return member;
}

/** As `JSON.parse` does it: an assignment to `__proto__` would set the prototype. */
function put(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') target[key] = value;
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}
