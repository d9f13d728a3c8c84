import { toWellFormed } from '../bpe/byte-text.ts';
import { spend, spendChars, spendItems, spendSearch, spendText } from './budget.ts';
import { TemplateRuntimeError } from './syntax.ts';
import { type CallArguments, isTrue, Tuple, toNumber, toText } from './values.ts';

/** What filters and methods make of texts. Each counts what it makes before it does, where that can be more than it takes. */

/** White space of Python's `str` that JavaScript does not count; U+FEFF it does count. */
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

/** @param countMax further ones are left as they are; all are replaced where it is no number, or negative */
export function replaceText(text: string, from: string, to: string, countMax: unknown): string {
  const limit = typeof countMax === 'number' && countMax >= 0 ? countMax : Number.POSITIVE_INFINITY;
  const growth = to.length - from.length;
  if (growth > 0) spendText(text.length + growth * Math.min(limit, countOf(text, from)));
  else spendSearch(text.length, from.length);
  if (limit === Number.POSITIVE_INFINITY) return text.replaceAll(from, () => to);
  let left = limit;
  return text.replaceAll(from, (found) => (left-- > 0 ? to : found));
}

/** Where `part` begins in `text`, -1 without it. */
export function positionOf(text: string, part: string, isFromRight = false): number {
  spendSearch(text.length, part.length);
  return isFromRight ? text.lastIndexOf(part) : text.indexOf(part);
}

/** Whether one of `parts`, or the only one, is what `matches` looks for in `text`. */
export function hasAny(text: string, parts: unknown, matches: (part: string) => boolean): boolean {
  return (Array.isArray(parts) ? parts : [parts]).some((one) => {
    const part = toText(one);
    spend(1);
    spendChars(Math.min(part.length, text.length));
    return matches(part);
  });
}

/** How often `part` is found, none within another. */
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

/** `items` as one text. */
export function joinItems(items: readonly unknown[], separator: string): string {
  const texts = items.map(toText);
  spendText(texts.reduce((sum, text) => sum + text.length, separator.length * Math.max(0, texts.length - 1)));
  return texts.join(separator);
}

export function toTitle(text: string): string {
  spendText(text.length);
  return text.replace(/\p{L}+/gu, (word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase());
}

/** As `str.center` does it: of an odd number of characters the one more goes before the text where the width is odd. */
export function centerText(text: string, width: unknown, fill: unknown): string {
  const columns = Math.trunc(toNumber(width, 'a width'));
  const missing = Math.max(1, columns - text.length);
  const before = Math.floor(missing / 2) + (missing & columns & 1);
  return padText(text, width, fill, before / missing);
}

/** `text` with `fill` around it, up to `width`. @param share of the fill that stands before the text */
export function padText(text: string, width: unknown, fill: unknown, share: number): string {
  const missing = Math.max(0, Math.trunc(toNumber(width, 'a width')) - text.length);
  const unit = fill === undefined ? ' ' : toText(fill);
  spendText(text.length + missing * unit.length);
  const before = Math.floor(missing * share + 1e-9);
  return unit.repeat(before) + text + unit.repeat(missing - before);
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

/** `str.format` with `{}`, `{0}`, `{name}` and a width, an alignment or a number of digits after a colon. */
export function formatText(text: string, args: readonly unknown[], named: ReadonlyMap<string, unknown>): string {
  let next = 0;
  return text.replace(/\{\{|\}\}|\{(\w*)(?::([^{}]*))?\}/g, (whole, field: string | undefined, spec = '') => {
    if (field === undefined) return whole[0]!;
    const isKnown =
      field === '' ? next < args.length : /^\d+$/.test(field) ? Number(field) < args.length : named.has(field);
    if (!isKnown) throw new TemplateRuntimeError(`format: no value for ${whole}`);
    const value = field === '' ? args[next++] : /^\d+$/.test(field) ? args[Number(field)] : named.get(field);
    const written = applySpec(value, spec);
    spendText(written.length);
    return written;
  });
}

const SPEC = /^(?:(.)?([<>^]))?(0)?(\d{1,6})?(?:\.(\d{1,3}))?([sdf])?$/u;

function applySpec(value: unknown, spec: string): string {
  if (spec === '') return toText(value);
  const [whole, fill = ' ', align, zeros, width = '0', digits, kind] = SPEC.exec(spec) ?? [];
  if (whole === undefined) throw new TemplateRuntimeError(`format: unknown specification ${spec}`);
  const isNumeric = kind === 'd' || kind === 'f' || typeof value === 'number';
  const isFixed = kind === 'f' || (digits !== undefined && isNumeric);
  const text = isFixed ? toNumber(value, 'format').toFixed(Math.min(100, Number(digits ?? 6))) : toText(value);
  const cut = isNumeric || digits === undefined ? text : text.slice(0, Number(digits));
  const isRight = align === '>' || (align === undefined && isNumeric);
  const share = align === '^' ? 0.5 : isRight ? 1 : 0;
  return padText(cut, Number(width), zeros === undefined ? fill : '0', share);
}

/** Python's `text % values`: `%s`, `%d`, `%f` with a width and digits, `%(name)s` and `%%`. */
export function formatPercent(text: string, args: readonly unknown[], named: ReadonlyMap<string, unknown>): string {
  let next = 0;
  return text.replace(/%(?:\((\w+)\))?(-)?(0)?(\d{1,6})?(?:\.(\d{1,3}))?([sdifr%])/g, (...match) => {
    const [, name, left, zeros, width = '0', digits, kind] = match as (string | undefined)[];
    if (kind === '%') return '%';
    if (name === undefined && next >= args.length) throw new TemplateRuntimeError('format: not enough values');
    const value = name === undefined ? args[next++] : named.get(name);
    const isWhole = kind === 'd' || kind === 'i';
    const number = isWhole || kind === 'f' ? toNumber(value, 'format') : 0;
    const plain = isWhole
      ? String(Math.trunc(number))
      : kind === 'f'
        ? number.toFixed(Math.min(100, Number(digits ?? 6)))
        : toText(value);
    const cut = kind === 's' && digits !== undefined ? plain.slice(0, Number(digits)) : plain;
    const written = padText(cut, Number(width), zeros === undefined ? ' ' : '0', left === undefined ? 1 : 0);
    spendText(written.length);
    return written;
  });
}

/** Lines of at most `width` characters, broken between words. */
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

/** At most `length` characters, `end` included, cut before a word unless `isHard`. */
export function truncateText(text: string, length: number, isHard: boolean, end: string, leeway: number): string {
  if (text.length <= length + leeway) return text;
  const cut = text.slice(0, Math.max(0, length - end.length));
  const blank = cut.lastIndexOf(' ');
  return (isHard || blank < 0 ? cut : cut.slice(0, blank)) + end;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

export function escapeHtml(value: string): string {
  const escaped = value.replace(/[&<>"']/g, (char) => ENTITIES[char]!);
  spendText(escaped.length);
  return escaped;
}

/** Python's `quote`: letters, digits and `_.-~/` stay. A mapping or a list of pairs becomes a query. */
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

/** The argument at `index`, or of that name. */
export function argument({ positional, named }: CallArguments, index: number, name: string): unknown {
  return named.has(name) ? named.get(name) : positional[index];
}

export function flagOf(args: CallArguments, index: number, name: string, fallback = false): boolean {
  const value = argument(args, index, name);
  return value === undefined ? fallback : isTrue(value);
}
