import { compare, isDictionary, isEqual, isIn, Namespace, toNumber, toText } from './values.ts';

/** An `is` test with the arguments after its name. */
export type Test = (value: unknown, args: readonly unknown[]) => boolean;

const equal: Test = (value, [other]) => isEqual(value, other);
const unequal: Test = (value, [other]) => !isEqual(value, other);
const less: Test = (value, [other]) => compare(value, other) < 0;
const lessOrEqual: Test = (value, [other]) => compare(value, other) <= 0;
const greater: Test = (value, [other]) => compare(value, other) > 0;
const greaterOrEqual: Test = (value, [other]) => compare(value, other) >= 0;

const TESTS: Readonly<Record<string, Test>> = {
  defined: (value) => value !== undefined,
  undefined: (value) => value === undefined,
  none: (value) => value === null,
  null: (value) => value === null,
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  float: (value) => typeof value === 'number' && !Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  mapping: (value) => isDictionary(value) || value instanceof Namespace,
  iterable: (value) => typeof value === 'string' || Array.isArray(value) || isDictionary(value),
  sequence: (value) => typeof value === 'string' || Array.isArray(value) || isDictionary(value),
  callable: (value) => typeof value === 'function',
  odd: (value) => Math.abs(toNumber(value, 'odd') % 2) === 1,
  even: (value) => toNumber(value, 'even') % 2 === 0,
  divisibleby: (value, [by]) => toNumber(value, 'divisibleby') % toNumber(by, 'divisibleby') === 0,
  upper: (value) => toText(value) === toText(value).toUpperCase(),
  lower: (value) => toText(value) === toText(value).toLowerCase(),
  in: (value, [container]) => isIn(value, container),
  sameas: (value, [other]) => value === other,
  startingwith: (value, [part]) => toText(value).startsWith(toText(part)),
  endingwith: (value, [part]) => toText(value).endsWith(toText(part)),
  eq: equal,
  equalto: equal,
  '==': equal,
  ne: unequal,
  '!=': unequal,
  lt: less,
  lessthan: less,
  '<': less,
  le: lessOrEqual,
  '<=': lessOrEqual,
  gt: greater,
  greaterthan: greater,
  '>': greater,
  ge: greaterOrEqual,
  '>=': greaterOrEqual,
};

/** The test `name`, or undefined. */
export function findTest(name: string): Test | undefined {
  return Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
}
