import { ExactNumber } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import { spend } from './budget.ts';

/** Result of `namespace()`: the only kind of value whose attributes a template may set. */
export class Namespace {
  readonly members = new Map<string, unknown>();
}

/** List that prints with parentheses and otherwise behaves as a list. */
export class Tuple extends Array<unknown> {}

/**
 * Arguments of an earlier call that are not a JSON object, because a limit cut them. Printed, they are the text that
 * the model wrote; a template that iterates over them sees one entry.
 */
export class WrittenArguments {
  /** The one entry; absent for blank arguments. */
  declare readonly arguments?: string;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    if (text.trim() !== '') this.arguments = text;
  }

  /** Returns the text that the model wrote. */
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

/** Returns the truth of a value as in Python: empty containers and strings, zero, none and undefined are false. */
export function isTrue(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Namespace) return true;
  if (value instanceof ExactNumber) return value.value !== 0;
  const { length } = Object.keys(value);
  spend(length);
  return length > 0;
}

export function isNumber(value: unknown): boolean {
  return typeof value === 'number' || value instanceof ExactNumber;
}

/** Returns whether a number is whole; false for a float, even for one without a fraction. */
export function isWhole(value: unknown): boolean {
  return value instanceof ExactNumber ? /^-?\d+$/.test(value.text) : Number.isInteger(value);
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
