import { accept, oneText, refuse, type ValueType } from './value-type.ts';

/** Unit of a number, written after the type: `int s`. */
export type Unit = 's' | 'ms' | 'MiB' | 'bytes' | 'tokens' | 'blocks' | 'GB/s';

/** Limits of a number, both ends included unless named `above`. */
export interface NumberRange {
  readonly min?: number;
  readonly max?: number;
  /** Excluded lower end. */
  readonly above?: number;
  readonly unit?: Unit;
}

/** Returns a range in words: `0-65535`, `>= 1`, `> 0`. */
export function rangeText(range: NumberRange): string {
  if (range.min !== undefined && range.max !== undefined) {
    return range.min < 0 || range.max > 1e9 ? `${range.min} to ${range.max}` : `${range.min}-${range.max}`;
  }
  const parts: string[] = [];
  if (range.min !== undefined) parts.push(`>= ${range.min}`);
  if (range.above !== undefined) parts.push(`> ${range.above}`);
  if (range.max !== undefined) parts.push(`<= ${range.max}`);
  return parts.join(', ');
}

function isInRange(value: number, { min = -Infinity, max = Infinity, above = -Infinity }: NumberRange): boolean {
  return value >= min && value <= max && value > above;
}

/** @param isHeld whether a JavaScript number holds the written value */
function numberType(
  { unit, ...range }: NumberRange,
  [name, written, fault]: readonly [name: string, written: RegExp, fault: string],
  isHeld: (value: number) => boolean,
): ValueType<number> {
  return oneText({
    name: unit === undefined ? name : `${name} ${unit}`,
    allowed: rangeText(range),
    parse: (text) => {
      const digits = text.trim();
      if (!written.test(digits)) return refuse(fault);
      const value = Number(digits);
      if (!isHeld(value)) return refuse('too large');
      return isInRange(value, range) ? accept(value) : refuse('out of range');
    },
  });
}

/** A whole number that a JavaScript number holds exactly. */
export function integerType(range: NumberRange): ValueType<number> {
  return numberType(range, ['int', /^[+-]?\d+$/, 'not a whole number'], Number.isSafeInteger);
}

/** A finite decimal number. */
export function decimalType(range: NumberRange): ValueType<number> {
  const written = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;
  return numberType(range, ['number', written, 'not a number'], Number.isFinite);
}

/** A TCP port; -1 counts only where `range.min` says so. */
export function portType(range: NumberRange): ValueType<number> {
  return { ...integerType({ min: 0, max: 65_535, ...range }), name: 'port' };
}

/** Ports of which a process binds one, both ends included: one number is a range of one. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

const PORTS = /^(-?\d+)(?:-(\d+))?$/;

/** A TCP port, or a range of them to take a free one from: `8800`, `8800-8863`. */
export function portRangeType(range: NumberRange): ValueType<PortRange> {
  const one = portType(range);
  return oneText({
    name: 'port or range',
    allowed: one.allowed,
    parse: (text, around) => {
      const [, from = text, to] = PORTS.exec(text.trim()) ?? [];
      const first = one.parse([from], around);
      if (!first.ok || to === undefined) {
        return first.ok ? accept({ first: first.value, last: first.value }) : first;
      }
      const last = one.parse([to], around);
      if (!last.ok) return last;
      if (first.value < 1) return refuse('a range starts at 1 or above');
      return first.value <= last.value
        ? accept({ first: first.value, last: last.value })
        : refuse('the range ends before it starts');
    },
    show: ({ first, last }) => (first === last ? String(first) : `${first}-${last}`),
  });
}
