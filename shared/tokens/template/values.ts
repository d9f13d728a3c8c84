import { ExactNumber, exactMember, keysInOrder } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import { checkText, spend, spendChars, spendItems, spendSearch, spendText } from './budget.ts';
import { TemplateRuntimeError } from './syntax.ts';

/** What `namespace()` makes: the one kind of value whose attributes a template may set. */
export class Namespace {
  readonly members = new Map<string, unknown>();
}

/** A list that prints with parentheses; in everything else it is a list. */
export class Tuple extends Array<unknown> {}

/**
 * Arguments of an earlier call that are no JSON object, because a limit cut them: printed and written as JSON they are what the
 * model wrote, and to a template that goes through them they are one entry.
 */
export class WrittenArguments {
  /** The one entry; none of blank arguments. */
  declare readonly arguments?: string;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    if (text.trim() !== '') this.arguments = text;
  }

  /** What the model wrote. */
  toString(): string {
    return this.#text;
  }

  toJSON(): string {
    return this.arguments ?? '{}';
  }
}

export type Dictionary = Readonly<Record<string, unknown>>;

export function isDictionary(value: unknown): value is Dictionary {
  return isRecord(value) && !(value instanceof Namespace) && !(value instanceof ExactNumber);
}

/** Truth as in Python: empty containers and strings, zero, none and undefined are false. */
export function isTrue(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Namespace) return true;
  if (value instanceof ExactNumber) return value.value !== 0;
  const { length } = Object.keys(value);
  spend(length);
  return length > 0;
}

/** `value` as `{{ }}` prints it: undefined as nothing, the rest as Python's `str`. */
export function toText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === undefined) return '';
  return value instanceof WrittenArguments ? value.toString() : toRepr(value);
}

/** Python's `repr`. */
function toRepr(value: unknown): string {
  spend(1);
  switch (typeof value) {
    case 'string':
      return reprOfString(value);
    case 'boolean':
      return value ? 'True' : 'False';
    case 'undefined':
      return 'Undefined';
    case 'object':
      break;
    default:
      return String(value);
  }
  if (value === null) return 'None';
  if (Array.isArray(value)) {
    const items = Array.from(value, (item, at) => toRepr(exactMember(value, at, item)));
    const inside = joinParts(items, ', ');
    return value instanceof Tuple ? `(${inside}${value.length === 1 ? ',' : ''})` : `[${inside}]`;
  }
  if (value instanceof ExactNumber) return value.text;
  if (value instanceof Namespace) return `<Namespace ${toRepr(Object.fromEntries(value.members))}>`;
  const entries = entriesOf(value as Dictionary).map(([key, member]) => `${toRepr(key)}: ${toRepr(member)}`);
  return `{${joinParts(entries, ', ')}}`;
}

/** Parts of a larger text as one. */
export function joinParts(parts: readonly string[], separator: string): string {
  spendChars(parts.reduce((sum, part) => sum + part.length, separator.length * parts.length));
  return parts.join(separator);
}

function reprOfString(text: string): string {
  spendText(text.length);
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')
    .replaceAll(quote, `\\${quote}`);
  return quote + escaped + quote;
}

/** Equality as in Python: containers by content. */
export function isEqual(left: unknown, right: unknown): boolean {
  spend(1);
  if (typeof left === 'string' && typeof right === 'string') {
    if (left.length === right.length) spendChars(left.length);
    return left === right;
  }
  if (left === right) return true;
  if (left instanceof ExactNumber) return isEqual(left.value, right);
  if (right instanceof ExactNumber) return isEqual(left, right.value);
  if (isBooleanAndNumber(left, right)) return Number(left) === Number(right);
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false;
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const [keys, others] = [Object.keys(left), Object.keys(right)];
  spend(keys.length + others.length);
  if (keys.length !== others.length) return false;
  return keys.every((key) => Object.hasOwn(right, key) && isEqual(member(left, key), member(right, key)));
}

/** `True == 1`, as in Python. */
function isBooleanAndNumber(left: unknown, right: unknown): boolean {
  return typeof left === 'boolean' ? typeof right === 'number' : typeof right === 'boolean' && typeof left === 'number';
}

function member(container: object, key: string): unknown {
  return (container as Dictionary)[key];
}

/** `item in container`. None and undefined contain nothing. */
export function isIn(item: unknown, container: unknown): boolean {
  if (typeof container === 'string') {
    const part = toText(item);
    spendSearch(container.length, part.length);
    return container.includes(part);
  }
  if (Array.isArray(container)) return container.some((candidate) => isEqual(candidate, item));
  if (isDictionary(container)) return typeof item === 'string' && Object.hasOwn(container, item);
  return false;
}

/** The items that a loop visits: of a dictionary its keys, of a string its characters, of undefined none. */
export function toItems(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (value === undefined || value === null) return [];
  if (typeof value === 'string') {
    spendItems(value.length);
    return Array.from(value);
  }
  if (isDictionary(value)) return keyValues(value);
  throw new TemplateRuntimeError(`${typeName(value)} is not iterable`);
}

/** Number of items; 0 for none and undefined. */
export function lengthOf(value: unknown): number {
  if (typeof value === 'string') return hasSurrogates(value) ? toItems(value).length : value.length;
  return toItems(value).length;
}

/** Keys in the order of the text that the value was read from. */
export function keysOf(value: Dictionary): readonly string[] {
  const keys = keysInOrder(value);
  spendItems(keys.length);
  return keys;
}

/** The member or item, a number as it was written. */
export function memberOf(container: Dictionary, key: string): unknown {
  return exactMember(container, key, container[key]);
}

/** Pairs of key and member in the order of the text that the value was read from. */
export function entriesOf(value: Dictionary): unknown[][] {
  const isByNumber = NUMBERED.has(value);
  return keysOf(value).map((key) => Tuple.of<unknown>(isByNumber ? Number(key) : key, memberOf(value, key)));
}

/** Mappings that a template writes with numbers for keys. */
const NUMBERED = new WeakSet<object>();

/** A mapping of what a template writes between braces. */
export function makeDictionary(members: readonly (readonly [unknown, unknown])[]): Dictionary {
  const made = Object.fromEntries(members.map(([key, value]) => [toText(key), value]));
  if (members.length > 0 && members.every(([key]) => typeof key === 'number')) NUMBERED.add(made);
  return made;
}

/** The keys as values: texts, or the numbers that they are. */
export function keyValues(value: Dictionary): readonly unknown[] {
  return NUMBERED.has(value) ? keysOf(value).map(Number) : keysOf(value);
}

const SURROGATE = /[\ud800-\udfff]/;

function hasSurrogates(text: string): boolean {
  spendChars(text.length);
  return SURROGATE.test(text);
}

/** `value[start:stop:step]` of a string or list, as in Python. */
export function sliceOf(
  value: unknown,
  start: number | undefined,
  stop: number | undefined,
  step: number | undefined,
): unknown {
  if (typeof value !== 'string') {
    const items = toItems(value);
    spendItems(items.length);
    return sliceItems(items, start, stop, step);
  }
  if ((step ?? 1) === 1 && !hasSurrogates(value)) return value.slice(start, stop);
  return sliceItems(toItems(value), start, stop, step).join('');
}

function sliceItems<T>(
  items: readonly T[],
  start: number | undefined,
  stop: number | undefined,
  step = 1,
): readonly T[] {
  if (step === 1) return items.slice(start, stop);
  if (step === 0) throw new TemplateRuntimeError('slice step cannot be zero');
  const length = items.length;
  const [low, high] = step > 0 ? [0, length] : [-1, length - 1];
  const clamp = (index: number): number => Math.min(Math.max(index < 0 ? index + length : index, low), high);
  const from = start === undefined ? (step > 0 ? low : high) : clamp(start);
  const to = stop === undefined ? (step > 0 ? high : low) : clamp(stop);
  const picked: T[] = [];
  for (let at = from; step > 0 ? at < to : at > to; at += step) picked.push(items[at]!);
  return picked;
}

/** Item of a list or string by position, negative from the end; undefined when outside. */
export function itemAt(value: readonly unknown[] | string, index: number): unknown {
  if (typeof value !== 'string') return exactMember(value, index < 0 ? index + value.length : index, value.at(index));
  return hasSurrogates(value) ? toItems(value).at(index) : value.at(index);
}

export function typeName(value: unknown): string {
  if (value === undefined) return 'undefined';
  if (value === null) return 'none';
  if (Array.isArray(value)) return 'a list';
  if (value instanceof ExactNumber) return 'a number';
  return (
    { string: 'a string', number: 'a number', boolean: 'a boolean', function: 'a function' }[typeof value as string] ??
    'a mapping'
  );
}

/** `left + right`: numbers, strings or lists. */
export function add(left: unknown, right: unknown): unknown {
  if (typeof left === 'string' && typeof right === 'string') return joinTexts(left, right);
  if (isNumber(left) && isNumber(right)) return toNumber(left, '+') + toNumber(right, '+');
  if (Array.isArray(left) && Array.isArray(right)) {
    spendItems(left.length + right.length);
    return left instanceof Tuple && right instanceof Tuple ? Tuple.from([...left, ...right]) : [...left, ...right];
  }
  throw new TemplateRuntimeError(`cannot add ${typeName(left)} and ${typeName(right)}`);
}

/** Two texts in one. */
export function joinTexts(left: string, right: string): string {
  checkText(left.length + right.length);
  return left + right;
}

export function isNumber(value: unknown): boolean {
  return typeof value === 'number' || value instanceof ExactNumber;
}

/** False for a float, even for one without a fraction. */
export function isWhole(value: unknown): boolean {
  return value instanceof ExactNumber ? /^-?\d+$/.test(value.text) : Number.isInteger(value);
}

export function toNumber(value: unknown, what: string): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (value instanceof ExactNumber) return value.value;
  throw new TemplateRuntimeError(`${what} needs a number, not ${typeName(value)}`);
}

export function compare(left: unknown, right: unknown): number {
  if (typeof left === 'string' && typeof right === 'string') {
    spendChars(Math.min(left.length, right.length));
    return left < right ? -1 : left > right ? 1 : 0;
  }
  return toNumber(left, 'a comparison') - toNumber(right, 'a comparison');
}

/** Variables of one block. What an inner block sets is gone after it. */
export class Scope {
  readonly #variables = new Map<string, unknown>();
  readonly #parent: Scope | undefined;

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  get(name: string): unknown {
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.#parent) {
      const value = scope.#variables.get(name);
      if (value !== undefined || scope.#variables.has(name)) return value;
    }
    return undefined;
  }

  set(name: string, value: unknown): void {
    this.#variables.set(name, value);
  }
}

/** Where a template writes. */
export interface Output {
  text: string;
}
