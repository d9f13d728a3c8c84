import { ExactNumber, exactMember } from '../../protocol/index.ts';
import { spend, spendChars, spendText } from './budget.ts';
import type { CallArguments } from './call-arguments.ts';
import { keysOf, memberOf } from './dictionaries.ts';
import { joinParts, toText } from './printed-values.ts';
import { TemplateRuntimeError } from './syntax.ts';
import { isDictionary, Namespace, typeName, WrittenArguments } from './values.ts';

interface JsonStyle {
  /** Text that is repeated for each level; undefined = everything on one line. */
  readonly indent: string | undefined;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortsKeys: boolean;
  readonly isAscii: boolean;
}

const PLAIN: JsonStyle = {
  indent: undefined,
  itemSeparator: ', ',
  keySeparator: ': ',
  sortsKeys: false,
  isAscii: false,
};
/** Limit of nesting: deeper values are refused before the stack overflows. */
const DEPTH_MAX = 200;

/**
 * Writes JSON as Hugging Face defines the `tojson` filter: `json.dumps` with spaces after separators and without HTML
 * escapes.
 */
export function toJsonText(value: unknown, args: CallArguments): string {
  const style = args.positional.length === 0 && args.named.size === 0 ? PLAIN : readStyle(args);
  const text = write(value, style, 0);
  spendText(text.length);
  return text;
}

/** Order of the parameters when given by position. */
const PARAMETERS = ['ensure_ascii', 'indent', 'separators', 'sort_keys'] as const;

function readStyle({ positional, named }: CallArguments): JsonStyle {
  // In plain Jinja, `tojson(4)` sets the indent, and templates that write it want that.
  const isSoleIndent = positional.length === 1 && typeof positional[0] === 'number';
  const option = (name: (typeof PARAMETERS)[number]): unknown => {
    if (isSoleIndent && name === 'indent') return positional[0];
    return named.get(name) ?? (isSoleIndent ? undefined : positional[PARAMETERS.indexOf(name)]);
  };
  const separators = option('separators');
  const indent = indentOf(option('indent'));
  const [itemSeparator, keySeparator] = Array.isArray(separators) ? separators.slice(0, 2).map(toText) : [];
  return {
    indent,
    itemSeparator: itemSeparator ?? (indent === undefined ? ', ' : ','),
    keySeparator: keySeparator ?? ': ',
    sortsKeys: option('sort_keys') === true,
    isAscii: option('ensure_ascii') === true,
  };
}

function indentOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value !== 'number') return undefined;
  const width = Math.max(0, Math.trunc(value));
  spendText(width);
  return ' '.repeat(width);
}

function write(value: unknown, style: JsonStyle, depth: number): string {
  if (depth > DEPTH_MAX) throw new TemplateRuntimeError('tojson: the value is nested too deeply');
  spend(1);
  if (typeof value === 'string') return writeString(value, style);
  if (value === undefined || value === null) return 'null';
  if (typeof value === 'number') return writeNumber(value);
  if (typeof value === 'boolean') return String(value);
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) {
    const items = value.map((item, at) => write(exactMember(value, at, item), style, depth + 1));
    return wrap('[', items, ']', style, depth);
  }
  if (value instanceof WrittenArguments) return value.toJSON();
  if (value instanceof Namespace) return write(Object.fromEntries(value.members), style, depth);
  if (!isDictionary(value)) throw new TemplateRuntimeError(`tojson cannot write ${typeName(value)}`);
  const keys = keysOf(value);
  const inOrder = style.sortsKeys ? [...keys].sort(byCodePoint) : keys;
  const members = inOrder.map(
    (key) => writeString(key, style) + style.keySeparator + write(memberOf(value, key), style, depth + 1),
  );
  return wrap('{', members, '}', style, depth);
}

/** Compares texts by code point, as Python does; JavaScript would put characters above U+FFFF before U+E000. */
function byCodePoint(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

/** Writes a number; writes the values that JSON lacks as `json.dumps` does. */
function writeNumber(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  return Number.isFinite(value) ? JSON.stringify(value) : value > 0 ? 'Infinity' : '-Infinity';
}

function wrap(open: string, parts: readonly string[], close: string, style: JsonStyle, depth: number): string {
  if (style.indent === undefined || parts.length === 0) return open + joinParts(parts, style.itemSeparator) + close;
  spendText(style.indent.length * (depth + 1) * (parts.length + 1));
  const outer = `\n${style.indent.repeat(depth)}`;
  const inner = `\n${style.indent.repeat(depth + 1)}`;
  return open + inner + joinParts(parts, style.itemSeparator + inner) + outer + close;
}

function writeString(text: string, style: JsonStyle): string {
  spendChars(text.length);
  const json = JSON.stringify(text);
  if (!style.isAscii) return json;
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
