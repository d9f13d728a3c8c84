import { spendText } from './budget.ts';
import { toNumber } from './operations.ts';
import { toText } from './printed-values.ts';
import { TemplateRuntimeError } from './syntax.ts';

/**
 * Centers a text as `str.center` does: if the fill has an odd number of characters, the extra one goes before the text
 * when the width is odd.
 */
export function centerText(text: string, width: unknown, fill: unknown): string {
  const columns = Math.trunc(toNumber(width, 'a width'));
  const missing = Math.max(1, columns - text.length);
  const before = Math.floor(missing / 2) + (missing & columns & 1);
  return padText(text, width, fill, before / missing);
}

/** Pads `text` with `fill` up to `width`. @param share of the fill that goes before the text */
export function padText(text: string, width: unknown, fill: unknown, share: number): string {
  const missing = Math.max(0, Math.trunc(toNumber(width, 'a width')) - text.length);
  const unit = fill === undefined ? ' ' : toText(fill);
  spendText(text.length + missing * unit.length);
  const before = Math.floor(missing * share + 1e-9);
  return unit.repeat(before) + text + unit.repeat(missing - before);
}

/**
 * Formats as `str.format`, with `{}`, `{0}`, `{name}` and a width, an alignment or a number of digits after a colon.
 */
export function formatText(text: string, args: readonly unknown[], named: ReadonlyMap<string, unknown>): string {
  let next = 0;
  return text.replace(/\{\{|\}\}|\{(\w*)(?::([^{}]*))?\}/g, (whole, field: string | undefined, spec = '') => {
    if (field === undefined) return whole[0]!;
    const key = field === '' ? next++ : /^\d+$/.test(field) ? Number(field) : field;
    const isKnown = typeof key === 'number' ? key < args.length : named.has(key);
    if (!isKnown) throw new TemplateRuntimeError(`format: no value for ${whole}`);
    const written = applySpec(typeof key === 'number' ? args[key] : named.get(key), spec);
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
  const text = isFixed ? toFixed(value, digits) : toText(value);
  const cut = isNumeric || digits === undefined ? text : text.slice(0, Number(digits));
  const isRight = align === '>' || (align === undefined && isNumeric);
  const share = align === '^' ? 0.5 : isRight ? 1 : 0;
  return padText(cut, Number(width), zeros === undefined ? fill : '0', share);
}

const DIGITS_MAX = 100;

function toFixed(value: unknown, digits = '6'): string {
  return toNumber(value, 'format').toFixed(Math.min(DIGITS_MAX, Number(digits)));
}

/** Formats as Python's `text % values`: `%s`, `%d`, `%f` with a width and digits, `%(name)s` and `%%`. */
export function formatPercent(text: string, args: readonly unknown[], named: ReadonlyMap<string, unknown>): string {
  let next = 0;
  return text.replace(/%(?:\((\w+)\))?(-)?(0)?(\d{1,6})?(?:\.(\d{1,3}))?([sdifr%])/g, (...match) => {
    const [, name, left, zeros, width = '0', digits, kind] = match as (string | undefined)[];
    if (kind === '%') return '%';
    if (name === undefined && next >= args.length) throw new TemplateRuntimeError('format: not enough values');
    const value = name === undefined ? args[next++] : named.get(name);
    const isWhole = kind === 'd' || kind === 'i';
    const number = isWhole ? Math.trunc(toNumber(value, 'format')) : value;
    const plain = kind === 'f' ? toFixed(value, digits) : toText(number);
    const cut = kind === 's' && digits !== undefined ? plain.slice(0, Number(digits)) : plain;
    const written = padText(cut, Number(width), zeros === undefined ? ' ' : '0', left === undefined ? 1 : 0);
    spendText(written.length);
    return written;
  });
}
