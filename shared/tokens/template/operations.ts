import { ExactNumber } from '../../protocol/index.ts';
import { checkText, spend, spendChars, spendItems, spendSearch, spendText } from './budget.ts';
import { toText } from './printed-values.ts';
import { TemplateRuntimeError } from './syntax.ts';
import { type Dictionary, isDictionary, isNumber, Tuple, typeName } from './values.ts';

/** Compares as Python does: containers by content. */
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

/** Returns whether the two are a boolean and a number: `True == 1`, as in Python. */
function isBooleanAndNumber(left: unknown, right: unknown): boolean {
  return typeof left === 'boolean' ? typeof right === 'number' : typeof right === 'boolean' && typeof left === 'number';
}

function member(container: object, key: string): unknown {
  return (container as Dictionary)[key];
}

/** Evaluates `item in container`. None and undefined contain nothing. */
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

/** Evaluates `left + right` for numbers, strings or lists. */
export function add(left: unknown, right: unknown): unknown {
  if (typeof left === 'string' && typeof right === 'string') return joinTexts(left, right);
  if (isNumber(left) && isNumber(right)) return toNumber(left, '+') + toNumber(right, '+');
  if (Array.isArray(left) && Array.isArray(right)) {
    spendItems(left.length + right.length);
    return left instanceof Tuple && right instanceof Tuple ? Tuple.from([...left, ...right]) : [...left, ...right];
  }
  throw new TemplateRuntimeError(`cannot add ${typeName(left)} and ${typeName(right)}`);
}

/** Joins two texts. */
export function joinTexts(left: string, right: string): string {
  checkText(left.length + right.length);
  return left + right;
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

const numbers =
  (calculate: (left: number, right: number) => unknown) =>
  (left: unknown, right: unknown): unknown =>
    calculate(toNumber(left, 'arithmetic'), toNumber(right, 'arithmetic'));

/** Operators of arithmetic and comparison. */
export const ARITHMETIC: Readonly<Record<string, (left: unknown, right: unknown) => unknown>> = {
  '-': numbers((left, right) => left - right),
  '*': (left, right) => {
    if (typeof left === 'string' || Array.isArray(left)) return repeat(left, toNumber(right, 'repetition'));
    if (typeof right === 'string' || Array.isArray(right)) return repeat(right, toNumber(left, 'repetition'));
    return toNumber(left, 'arithmetic') * toNumber(right, 'arithmetic');
  },
  '/': numbers((left, right) => left / right),
  '//': numbers((left, right) => Math.floor(left / right)),
  '%': numbers((left, right) => left - right * Math.floor(left / right)),
  '**': numbers((left, right) => left ** right),
  '<': (left, right) => compare(left, right) < 0,
  '<=': (left, right) => compare(left, right) <= 0,
  '>': (left, right) => compare(left, right) > 0,
  '>=': (left, right) => compare(left, right) >= 0,
};

function repeat(value: string | readonly unknown[], times: number): unknown {
  const count = Math.max(0, Math.trunc(times));
  if (typeof value === 'string') {
    spendText(value.length * count);
    return value.repeat(count);
  }
  spendItems(value.length * count);
  return Array.from({ length: value.length * count }, (_, at) => value[at % value.length]);
}
