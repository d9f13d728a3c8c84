import { toWellFormed } from '../bpe/byte-text.ts';
import { spend, spendChars, spendItems, spendSearch, spendText } from './budget.ts';
import { toNumber } from './operations.ts';
import { toText } from './printed-values.ts';
import { TemplateRuntimeError } from './syntax.ts';
import { Tuple } from './values.ts';

/**
 * Text functions for filters and methods. A function counts the text that it makes beforehand, if that can exceed its
 * input.
 */

/** White space in Python's `str` that is not white space in JavaScript; the reverse holds for U+FEFF. */
const NOT_ALIKE = '\\x1c\\x1d\\x1e\\x1f\\x85';
const ODD_EDGE = new RegExp(`[${NOT_ALIKE}\\ufeff]`);
const IS_SPACE = new RegExp(`^[\\s${NOT_ALIKE}]$`);

/** Strips white space, or any of the characters of `chars`. */
export function stripText(text: string, chars: unknown, atStart: boolean, atEnd: boolean): string {
  if (chars === undefined || chars === null) return stripSpace(text, atStart, atEnd);
  const listed = toText(chars);
  spendItems(listed.length);
  const set = new Set(listed.split(''));
  let start = 0;
  let end = text.length;
  while (atStart && start < end && set.has(text[start]!)) start++;
  while (atEnd && end > start && set.has(text[end - 1]!)) end--;
  spend(start + text.length - end);
  return text.slice(start, end);
}

function stripSpace(text: string, atStart: boolean, atEnd: boolean): string {
  const plain = atStart && atEnd ? text.trim() : atStart ? text.trimStart() : text.trimEnd();
  const edges = text.slice(0, 1) + text.slice(-1) + plain.slice(0, 1) + plain.slice(-1);
  if (!ODD_EDGE.test(edges) && (plain.length === text.length || !text.includes('\ufeff'))) return plain;
  let start = 0;
  let end = text.length;
  while (atStart && start < end && isSpace(text[start]!)) start++;
  while (atEnd && end > start && isSpace(text[end - 1]!)) end--;
  spend(start + text.length - end);
  return text.slice(start, end);
}

function isSpace(char: string): boolean {
  return char !== '\ufeff' && IS_SPACE.test(char);
}

/**
 * Replaces `from` by `to`. @param countMax number of replacements; without a number, or if negative, all are replaced
 */
export function replaceText(text: string, from: string, to: string, countMax: unknown): string {
  const limit = typeof countMax === 'number' && countMax >= 0 ? countMax : Number.POSITIVE_INFINITY;
  const growth = to.length - from.length;
  if (growth > 0) spendText(text.length + growth * Math.min(limit, countOf(text, from)));
  else spendSearch(text.length, from.length);
  if (limit === Number.POSITIVE_INFINITY) return text.replaceAll(from, () => to);
  let left = limit;
  return text.replaceAll(from, (found) => (left-- > 0 ? to : found));
}

/** Returns where `part` begins in `text`, or -1. */
export function positionOf(text: string, part: string, isFromRight = false): number {
  spendSearch(text.length, part.length);
  return isFromRight ? text.lastIndexOf(part) : text.indexOf(part);
}

/** Returns whether `matches` is true for `parts`, or for one of them if they are a list. */
export function hasAny(text: string, parts: unknown, matches: (part: string) => boolean): boolean {
  return (Array.isArray(parts) ? parts : [parts]).some((one) => {
    const part = toText(one);
    spend(1);
    spendChars(Math.min(part.length, text.length));
    return matches(part);
  });
}

/** Counts the occurrences of `part` that do not overlap. */
export function countOf(text: string, part: string): number {
  spendSearch(text.length, part.length);
  if (part === '') return text.length + 1;
  let count = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count++;
  return count;
}

export function splitText(text: string, separator: unknown, countMax: unknown): string[] {
  const limit = typeof countMax === 'number' && countMax >= 0 ? countMax : Number.POSITIVE_INFINITY;
  if (separator === undefined || separator === null) return splitAtSpace(text, limit);
  const by = toText(separator);
  if (by === '') throw new TemplateRuntimeError('split: empty separator');
  spendItems(countOf(text, by));
  const parts = text.split(by);
  return parts.length <= limit + 1 ? parts : [...parts.slice(0, limit), parts.slice(limit).join(by)];
}

function splitAtSpace(text: string, limit: number): string[] {
  const parts: string[] = [];
  let rest = text.trimStart();
  while (rest !== '' && parts.length < limit) {
    spendItems(1);
    const [word] = /^\S+/.exec(rest) ?? [rest];
    parts.push(word);
    rest = rest.slice(word.length).trimStart();
  }
  return rest === '' ? parts : [...parts, rest];
}

export function splitFromRight(text: string, separator: unknown, countMax: unknown): string[] {
  const all = splitText(text, separator, undefined);
  const limit = typeof countMax === 'number' && countMax >= 0 ? countMax : all.length;
  if (all.length <= limit + 1) return all;
  const kept = all.length - limit;
  return [all.slice(0, kept).join(separator == null ? ' ' : toText(separator)), ...all.slice(kept)];
}

export function splitLines(text: string, keepsEnds: boolean): string[] {
  spendItems(countOf(text, '\n') + countOf(text, '\r'));
  if (keepsEnds) return text.match(/[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$/g) ?? [];
  return text === '' ? [] : text.replace(/(?:\r\n|\n|\r)$/, '').split(/\r\n|\n|\r/);
}

export function cutAt(text: string, separator: string, at: number): readonly unknown[] | undefined {
  return at < 0 ? undefined : Tuple.of(text.slice(0, at), separator, text.slice(at + separator.length));
}

/** Joins `items` into one text. */
export function joinItems(items: readonly unknown[], separator: string): string {
  const texts = items.map(toText);
  spendText(texts.reduce((sum, text) => sum + text.length, separator.length * Math.max(0, texts.length - 1)));
  return texts.join(separator);
}

/** Counts a text that was made from one of about the same length. */
export function made(text: string): string {
  spendText(text.length);
  return text;
}

export function capitalize(text: string): string {
  return made(text.charAt(0).toUpperCase() + text.slice(1).toLowerCase());
}

export function toTitle(text: string): string {
  return made(text.replace(/\p{L}+/gu, (word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase()));
}

export function indentText(value: string, width: unknown, isFirstIndented: boolean, areBlankIndented: boolean): string {
  const isText = typeof width === 'string';
  const prefixChars = isText ? width.length : Math.max(0, Math.trunc(toNumber(width ?? 4, 'indent')));
  spendText(value.length + prefixChars * (countOf(value, '\n') + 1));
  const prefix = isText ? width : ' '.repeat(prefixChars);
  const change = (line: string, at: number): string =>
    (at === 0 && !isFirstIndented) || (line === '' && at > 0 && !areBlankIndented) ? line : prefix + line;
  const lines = value.split('\n');
  spendItems(lines.length);
  return lines.map(change).join('\n');
}

/** Wraps a text into lines of at most `width` characters, broken between words. */
export function wrapWords(text: string, width: number, breaksLongWords: boolean, lineEnd: string): string {
  const room = Math.max(1, Math.trunc(width));
  const wrapLine = (line: string): string => {
    const lines: string[] = [];
    let current = '';
    for (let word of splitAtSpace(line, Number.POSITIVE_INFINITY)) {
      if (current !== '' && current.length + 1 + word.length > room) {
        lines.push(current);
        current = '';
      }
      for (; breaksLongWords && word.length > room; word = word.slice(room)) {
        spend(1);
        lines.push(word.slice(0, room));
      }
      current = current === '' ? word : `${current} ${word}`;
    }
    return joinItems([...lines, current], lineEnd);
  };
  return joinItems(splitLines(text, false).map(wrapLine), lineEnd);
}

/** Truncates a text to at most `length` characters, `end` included; cuts before a word unless `isHard`. */
export function truncateText(text: string, length: number, isHard: boolean, end: string, leeway: number): string {
  if (text.length <= length + leeway) return text;
  const cut = text.slice(0, Math.max(0, length - end.length));
  const blank = cut.lastIndexOf(' ');
  return (isHard || blank < 0 ? cut : cut.slice(0, blank)) + end;
}

/** Removes tags and turns each run of white space into one blank. */
export function stripTags(text: string): string {
  const plain = text.replace(/<[^<>]*>/g, '').replace(/\s+/g, ' ');
  return made(plain.trim());
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

export function escapeHtml(value: string): string {
  return made(value.replace(/[&<>"']/g, (char) => ENTITIES[char]!));
}

/** Encodes as Python's `quote`: letters, digits and `_.-~/` stay. A mapping or a list of pairs becomes a query. */
export function encodeUrl(value: unknown, pairs: readonly (readonly unknown[])[] | undefined): string {
  const quote = (text: string): string => {
    spendText(text.length * 3);
    return encodeURIComponent(toWellFormed(text)).replace(
      /[!'()*]/g,
      (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  };
  if (pairs === undefined) return quote(toText(value)).replaceAll('%2F', '/');
  return joinItems(
    pairs.map(([key, member]) => `${quote(toText(key))}=${quote(toText(member))}`.replaceAll('%20', '+')),
    '&',
  );
}
