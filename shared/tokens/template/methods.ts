import { TemplateRuntimeError } from './syntax.ts';
import { type CallArguments, type Dictionary, Tuple, toItems, toText, typeName } from './values.ts';

type Method<T> = (self: T, args: readonly unknown[], named: ReadonlyMap<string, unknown>) => unknown;

const STRING_METHODS: Readonly<Record<string, Method<string>>> = {
  upper: (text) => text.toUpperCase(),
  lower: (text) => text.toLowerCase(),
  title: toTitle,
  capitalize: (text) => text.charAt(0).toUpperCase() + text.slice(1).toLowerCase(),
  strip: (text, [chars]) => stripText(text, chars, true, true),
  lstrip: (text, [chars]) => stripText(text, chars, true, false),
  rstrip: (text, [chars]) => stripText(text, chars, false, true),
  startswith: (text, [part]) => (Array.isArray(part) ? part : [part]).some((one) => text.startsWith(toText(one))),
  endswith: (text, [part]) => (Array.isArray(part) ? part : [part]).some((one) => text.endsWith(toText(one))),
  split: (text, [separator, count], named) =>
    splitText(text, separator ?? named.get('sep'), count ?? named.get('maxsplit')),
  rsplit: (text, [separator, count], named) =>
    splitFromRight(text, separator ?? named.get('sep'), count ?? named.get('maxsplit')),
  splitlines: (text) => text.replace(/(?:\r\n|\n|\r)$/, '').split(/\r\n|\n|\r/),
  replace: (text, [from, to, count], named) => replaceText(text, toText(from), toText(to), count ?? named.get('count')),
  find: (text, [part]) => text.indexOf(toText(part)),
  rfind: (text, [part]) => text.lastIndexOf(toText(part)),
  count: (text, [part]) => text.split(toText(part)).length - 1,
  join: (text, [items]) => toItems(items).map(toText).join(text),
  partition: (text, [separator]) =>
    cutAt(text, toText(separator), text.indexOf(toText(separator))) ?? Tuple.of(text, '', ''),
  rpartition: (text, [separator]) =>
    cutAt(text, toText(separator), text.lastIndexOf(toText(separator))) ?? Tuple.of('', '', text),
  removeprefix: (text, [part]) => (text.startsWith(toText(part)) ? text.slice(toText(part).length) : text),
  removesuffix: (text, [part]) =>
    part !== '' && text.endsWith(toText(part)) ? text.slice(0, -toText(part).length) : text,
  isdigit: (text) => /^\p{Nd}+$/u.test(text),
  isalpha: (text) => /^\p{L}+$/u.test(text),
  isalnum: (text) => /^[\p{L}\p{N}]+$/u.test(text),
  isspace: (text) => /^\s+$/.test(text),
  isupper: (text) => text !== text.toLowerCase() && text === text.toUpperCase(),
  islower: (text) => text !== text.toUpperCase() && text === text.toLowerCase(),
  format: formatText,
};

const DICTIONARY_METHODS: Readonly<Record<string, Method<Dictionary>>> = {
  get: (self, [key, fallback = null]) => (Object.hasOwn(self, String(key)) ? self[String(key)] : fallback),
  items: (self) => Object.entries(self).map((entry) => Tuple.of(...entry)),
  keys: (self) => Object.keys(self),
  values: (self) => Object.values(self),
};

const LIST_METHODS: Readonly<Record<string, Method<readonly unknown[]>>> = {
  index: (self, [item]) => self.indexOf(item),
  count: (self, [item]) => self.filter((one) => one === item).length,
};

/** The method `name` of a string, list or dictionary, or undefined. */
export function findMethod(self: unknown, name: string): ((args: CallArguments) => unknown) | undefined {
  const method =
    typeof self === 'string'
      ? own(STRING_METHODS, name)
      : Array.isArray(self)
        ? own(LIST_METHODS, name)
        : own(DICTIONARY_METHODS, name);
  if (method === undefined) return undefined;
  return ({ positional, named }) => (method as Method<unknown>)(self, positional, named);
}

function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

export function toTitle(text: string): string {
  return text.replace(/\p{L}+/gu, (word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase());
}

/** Strips white space, or any of the characters of `chars`. */
export function stripText(text: string, chars: unknown, atStart: boolean, atEnd: boolean): string {
  if (chars === undefined || chars === null) {
    if (atStart && atEnd) return text.trim();
    return atStart ? text.trimStart() : text.trimEnd();
  }
  const set = toText(chars);
  let start = 0;
  let end = text.length;
  while (atStart && start < end && set.includes(text[start]!)) start++;
  while (atEnd && end > start && set.includes(text[end - 1]!)) end--;
  return text.slice(start, end);
}

function splitText(text: string, separator: unknown, countMax: unknown): string[] {
  const limit = typeof countMax === 'number' && countMax >= 0 ? countMax : Number.POSITIVE_INFINITY;
  if (separator === undefined || separator === null) return splitAtSpace(text, limit);
  const by = toText(separator);
  if (by === '') throw new TemplateRuntimeError('split: empty separator');
  const parts = text.split(by);
  return parts.length <= limit + 1 ? parts : [...parts.slice(0, limit), parts.slice(limit).join(by)];
}

function splitAtSpace(text: string, limit: number): string[] {
  const parts: string[] = [];
  let rest = text.trimStart();
  while (rest !== '' && parts.length < limit) {
    const [word] = /^\S+/.exec(rest) ?? [rest];
    parts.push(word);
    rest = rest.slice(word.length).trimStart();
  }
  return rest === '' ? parts : [...parts, rest];
}

function splitFromRight(text: string, separator: unknown, countMax: unknown): string[] {
  const all = splitText(text, separator, undefined);
  const limit = typeof countMax === 'number' && countMax >= 0 ? countMax : all.length;
  if (all.length <= limit + 1) return all;
  const kept = all.length - limit;
  return [all.slice(0, kept).join(separator == null ? ' ' : toText(separator)), ...all.slice(kept)];
}

export function replaceText(text: string, from: string, to: string, countMax: unknown): string {
  if (typeof countMax !== 'number' || countMax < 0) return text.replaceAll(from, () => to);
  let left = countMax;
  return text.replaceAll(from, (found) => (left-- > 0 ? to : found));
}

function cutAt(text: string, separator: string, at: number): readonly unknown[] | undefined {
  return at < 0 ? undefined : Tuple.of(text.slice(0, at), separator, text.slice(at + separator.length));
}

/** `str.format` with `{}`, `{0}` and `{name}`; format specifications are not supported. */
function formatText(text: string, args: readonly unknown[], named: ReadonlyMap<string, unknown>): string {
  let next = 0;
  return text.replace(/\{\{|\}\}|\{(\w*)\}/g, (whole, field: string | undefined) => {
    if (field === undefined) return whole[0]!;
    const value = field === '' ? args[next++] : /^\d+$/.test(field) ? args[Number(field)] : named.get(field);
    if (value === undefined) throw new TemplateRuntimeError(`format: no value for ${typeName(value)} ${whole}`);
    return toText(value);
  });
}
