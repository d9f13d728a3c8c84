import { spendChars, spendItems } from './budget.ts';
import type { CallArguments } from './call-arguments.ts';
import { entriesOf, keysOf, keyValues, memberOf } from './dictionaries.ts';
import { centerText, formatText, padText } from './format-text.ts';
import { isEqual, toNumber } from './operations.ts';
import { toText } from './printed-values.ts';
import { toItems } from './sequences.ts';
import { TemplateRuntimeError } from './syntax.ts';
import {
  capitalize,
  countOf,
  cutAt,
  hasAny,
  joinItems,
  made,
  positionOf,
  replaceText,
  splitFromRight,
  splitLines,
  splitText,
  stripText,
  toTitle,
} from './texts.ts';
import { type Dictionary, isTrue, Tuple } from './values.ts';

type Method<T> = (self: T, args: readonly unknown[], named: ReadonlyMap<string, unknown>) => unknown;

const STRING_METHODS: Readonly<Record<string, Method<string>>> = {
  upper: (text) => made(text.toUpperCase()),
  lower: (text) => made(text.toLowerCase()),
  casefold: (text) => made(text.toLowerCase()),
  swapcase: (text) =>
    made(text.replace(/\p{L}/gu, (char) => (char === char.toLowerCase() ? char.toUpperCase() : char.toLowerCase()))),
  title: toTitle,
  capitalize,
  strip: (text, [chars]) => stripText(text, chars, true, true),
  lstrip: (text, [chars]) => stripText(text, chars, true, false),
  rstrip: (text, [chars]) => stripText(text, chars, false, true),
  startswith: (text, [part]) => hasAny(text, part, (one) => text.startsWith(one)),
  endswith: (text, [part]) => hasAny(text, part, (one) => text.endsWith(one)),
  split: (text, [separator, count], named) =>
    splitText(text, separator ?? named.get('sep'), count ?? named.get('maxsplit')),
  rsplit: (text, [separator, count], named) =>
    splitFromRight(text, separator ?? named.get('sep'), count ?? named.get('maxsplit')),
  splitlines: (text, [keepsEnds], named) => splitLines(text, isTrue(keepsEnds ?? named.get('keepends'))),
  replace: (text, [from, to, count], named) => replaceText(text, toText(from), toText(to), count ?? named.get('count')),
  find: (text, [part]) => positionOf(text, toText(part)),
  rfind: (text, [part]) => positionOf(text, toText(part), true),
  index: (text, [part]) => found(positionOf(text, toText(part))),
  rindex: (text, [part]) => found(positionOf(text, toText(part), true)),
  count: (text, [part]) => countOf(text, toText(part)),
  join: (text, [items]) => joinItems(toItems(items), text),
  partition: (text, [separator]) =>
    cutAt(text, toText(separator), positionOf(text, toText(separator))) ?? Tuple.of(text, '', ''),
  rpartition: (text, [separator]) =>
    cutAt(text, toText(separator), positionOf(text, toText(separator), true)) ?? Tuple.of('', '', text),
  removeprefix: (text, [part]) => (text.startsWith(toText(part)) ? text.slice(toText(part).length) : text),
  removesuffix: (text, [part]) =>
    part !== '' && text.endsWith(toText(part)) ? text.slice(0, -toText(part).length) : text,
  center: (text, [width, fill]) => centerText(text, width, fill),
  ljust: (text, [width, fill]) => padText(text, width, fill, 0),
  rjust: (text, [width, fill]) => padText(text, width, fill, 1),
  zfill: (text, [width]) =>
    /^[+-]/.test(text)
      ? text[0] + padText(text.slice(1), toNumber(width, 'zfill') - 1, '0', 1)
      : padText(text, width, '0', 1),
  isdigit: (text) => /^\p{Nd}+$/u.test(text),
  isdecimal: (text) => /^\p{Nd}+$/u.test(text),
  isnumeric: (text) => /^\p{N}+$/u.test(text),
  isalpha: (text) => /^\p{L}+$/u.test(text),
  isalnum: (text) => /^[\p{L}\p{N}]+$/u.test(text),
  isspace: (text) => /^\s+$/.test(text),
  isupper: (text) => text !== text.toLowerCase() && text === text.toUpperCase(),
  islower: (text) => text !== text.toUpperCase() && text === text.toLowerCase(),
  isidentifier: (text) => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(text),
  format: formatText,
};

function found(at: number): number {
  if (at < 0) throw new TemplateRuntimeError('substring not found');
  return at;
}

const DICTIONARY_METHODS: Readonly<Record<string, Method<Dictionary>>> = {
  get: (self, [key, fallback = null]) => (Object.hasOwn(self, toText(key)) ? memberOf(self, toText(key)) : fallback),
  items: entriesOf,
  keys: keyValues,
  values: (self) => keysOf(self).map((key) => memberOf(self, key)),
  copy: (self) => {
    spendItems(keysOf(self).length);
    return { ...self };
  },
};

const LIST_METHODS: Readonly<Record<string, Method<readonly unknown[]>>> = {
  index: (self, [item]) => found(self.findIndex((one) => isEqual(one, item))),
  count: (self, [item]) => self.filter((one) => isEqual(one, item)).length,
  copy: (self) => {
    spendItems(self.length);
    return [...self];
  },
};

/** Returns the method `name` of a string, list or dictionary, or undefined. */
export function findMethod(self: unknown, name: string): ((args: CallArguments) => unknown) | undefined {
  const method =
    typeof self === 'string'
      ? own(STRING_METHODS, name)
      : Array.isArray(self)
        ? own(LIST_METHODS, name)
        : own(DICTIONARY_METHODS, name);
  if (method === undefined) return undefined;
  return ({ positional, named }) => {
    if (typeof self === 'string') spendChars(self.length);
    return (method as Method<unknown>)(self, positional, named);
  };
}

function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
