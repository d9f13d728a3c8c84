import { isRecord } from './record-reader.ts';

/**
 * Whether a value that somebody else wrote is of a kind. The functions here make shapes of shapes, for records that are taken
 * whole or not at all; nobody is told which field is wrong. Never throws, whatever the value.
 */
export type Shape = (value: unknown) => boolean;

export const anything: Shape = () => true;

export const flag: Shape = (value) => typeof value === 'boolean';

/** @param pattern what else it must match */
export function text(lengthMin: number, lengthMax: number, pattern?: RegExp): Shape {
  return (value) =>
    typeof value === 'string' &&
    value.length >= lengthMin &&
    value.length <= lengthMax &&
    (pattern === undefined || pattern.test(value));
}

/** @param most @default the largest that a number holds exactly */
export function whole(least: number, most: number = Number.MAX_SAFE_INTEGER): Shape {
  return (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
}

export function fraction(least: number, most: number): Shape {
  return (value) => typeof value === 'number' && value >= least && value <= most;
}

export function oneOf(...values: readonly unknown[]): Shape {
  return (value) => values.includes(value);
}

/** Absent, or of `shape`. */
export function optional(shape: Shape): Shape {
  return (value) => value === undefined || shape(value);
}

/** Absent or null, which is how other languages write that it is absent, or of `shape`. */
export function maybe(shape: Shape): Shape {
  return (value) => value === undefined || value === null || shape(value);
}

export function listOf(shape: Shape, lengthMax: number): Shape {
  return (value) => Array.isArray(value) && value.length <= lengthMax && value.every(shape);
}

/** A record of any names, each of them and each value of a shape. */
export function recordOf(key: Shape, value: Shape): Shape {
  return (record) => isRecord(record) && Object.entries(record).every(([name, each]) => key(name) && value(each));
}

/** A record with at least these fields: a newer process may write more. */
export function fields(shapes: Readonly<Record<string, Shape>>): Shape {
  const each = Object.entries(shapes);
  return (value) => isRecord(value) && each.every(([name, shape]) => shape(value[name]));
}

/** A record with these fields and no others. */
export function onlyFields(shapes: Readonly<Record<string, Shape>>): Shape {
  const isWhole = fields(shapes);
  return (value) => isWhole(value) && Object.keys(value as object).every((name) => Object.hasOwn(shapes, name));
}

/** A record whose field `name` says which of the shapes it is of. */
export function byField(name: string, shapes: Readonly<Record<string, Shape>>): Shape {
  const byValue = new Map<unknown, Shape>(Object.entries(shapes));
  return (value) => isRecord(value) && byValue.get(value[name])?.(value) === true;
}
