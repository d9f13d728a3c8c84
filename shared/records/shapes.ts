import { isRecord } from './record-reader.ts';

/**
 * Tests whether a value from outside is of a kind. The functions here build shapes from shapes, for records that are
 * accepted whole or not at all; they do not say which field is wrong. A shape never throws, whatever the value.
 */
export type Shape = (value: unknown) => boolean;

export const anything: Shape = () => true;

export const flag: Shape = (value) => typeof value === 'boolean';

/** @param pattern that the text must also match */
export function text(lengthMin: number, lengthMax: number, pattern?: RegExp): Shape {
  return (value) =>
    typeof value === 'string' &&
    value.length >= lengthMin &&
    value.length <= lengthMax &&
    (pattern === undefined || pattern.test(value));
}

/** @param most @default the largest integer that a number holds exactly */
export function whole(least: number, most: number = Number.MAX_SAFE_INTEGER): Shape {
  return (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
}

export function fraction(least: number, most: number): Shape {
  return (value) => typeof value === 'number' && value >= least && value <= most;
}

export function oneOf(...values: readonly unknown[]): Shape {
  return (value) => values.includes(value);
}

/** Accepts an absent value, or one of `shape`. */
export function optional(shape: Shape): Shape {
  return (value) => value === undefined || shape(value);
}

/** Accepts an absent value, null (which is how other languages write an absent value), or one of `shape`. */
export function maybe(shape: Shape): Shape {
  return (value) => value === undefined || value === null || shape(value);
}

export function listOf(shape: Shape, lengthMax: number): Shape {
  return (value) => Array.isArray(value) && value.length <= lengthMax && value.every(shape);
}

/** Accepts a record with any names, if each name and each value has its shape. */
export function recordOf(key: Shape, value: Shape): Shape {
  return (record) => isRecord(record) && Object.entries(record).every(([name, each]) => key(name) && value(each));
}

/** Accepts a record with at least these fields, because a newer process may write more. */
export function fields(shapes: Readonly<Record<string, Shape>>): Shape {
  const each = Object.entries(shapes);
  return (value) => isRecord(value) && each.every(([name, shape]) => shape(value[name]));
}

/** Accepts a record with these fields and no others. */
export function onlyFields(shapes: Readonly<Record<string, Shape>>): Shape {
  const isWhole = fields(shapes);
  return (value) => isWhole(value) && Object.keys(value as object).every((name) => Object.hasOwn(shapes, name));
}

/** Accepts a record whose field `name` says which of the shapes it has. */
export function byField(name: string, shapes: Readonly<Record<string, Shape>>): Shape {
  const byValue = new Map<unknown, Shape>(Object.entries(shapes));
  return (value) => isRecord(value) && byValue.get(value[name])?.(value) === true;
}
