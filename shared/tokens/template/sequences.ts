import { exactMember } from '../../protocol/index.ts';
import { spendChars, spendItems } from './budget.ts';
import { keyValues } from './dictionaries.ts';
import { TemplateRuntimeError } from './syntax.ts';
import { isDictionary, typeName } from './values.ts';

/**
 * Returns the items that a loop visits: the keys of a dictionary, the characters of a string, nothing for undefined.
 */
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

/** Returns the number of items; 0 for none and undefined. */
export function lengthOf(value: unknown): number {
  if (typeof value === 'string') return hasSurrogates(value) ? toItems(value).length : value.length;
  return toItems(value).length;
}

const SURROGATE = /[\ud800-\udfff]/;

function hasSurrogates(text: string): boolean {
  spendChars(text.length);
  return SURROGATE.test(text);
}

/** Returns `value[start:stop:step]` of a string or list, as in Python. */
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

/** Returns an item of a list or string by position, counted from the end if negative; undefined when outside. */
export function itemAt(value: readonly unknown[] | string, index: number): unknown {
  if (typeof value !== 'string') return exactMember(value, index < 0 ? index + value.length : index, value.at(index));
  return hasSurrogates(value) ? toItems(value).at(index) : value.at(index);
}
