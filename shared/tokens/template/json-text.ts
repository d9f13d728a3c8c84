import { TemplateRuntimeError } from './syntax.ts';
import { type CallArguments, isDictionary, Namespace, typeName, WrittenArguments } from './values.ts';

interface JsonStyle {
  readonly indent: number;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortsKeys: boolean;
  readonly isAscii: boolean;
}

const PLAIN: JsonStyle = { indent: 0, itemSeparator: ', ', keySeparator: ': ', sortsKeys: false, isAscii: false };
/** Deeper values are refused instead of overflowing the stack. */
const DEPTH_MAX = 200;

/** The `tojson` filter as Hugging Face defines it: `json.dumps` with spaces after separators and without escapes for HTML. */
export function toJsonText(value: unknown, args: CallArguments): string {
  return write(value, args.positional.length === 0 && args.named.size === 0 ? PLAIN : readStyle(args), 0);
}

/** Order of the parameters when given by position. */
const PARAMETERS = ['ensure_ascii', 'indent', 'separators', 'sort_keys'] as const;

function readStyle({ positional, named }: CallArguments): JsonStyle {
  // `tojson(4)` means the indent in plain Jinja, which is what templates that write it want.
  const isSoleIndent = positional.length === 1 && typeof positional[0] === 'number';
  const option = (name: (typeof PARAMETERS)[number]): unknown => {
    if (isSoleIndent && name === 'indent') return positional[0];
    return named.get(name) ?? (isSoleIndent ? undefined : positional[PARAMETERS.indexOf(name)]);
  };
  const indent = option('indent');
  const separators = option('separators');
  const indentWidth = typeof indent === 'number' ? indent : 0;
  const [itemSeparator, keySeparator] = Array.isArray(separators) ? separators.map(String) : [];
  return {
    indent: indentWidth,
    itemSeparator: itemSeparator ?? (indentWidth > 0 ? ',' : ', '),
    keySeparator: keySeparator ?? ': ',
    sortsKeys: option('sort_keys') === true,
    isAscii: option('ensure_ascii') === true,
  };
}

function write(value: unknown, style: JsonStyle, depth: number): string {
  if (depth > DEPTH_MAX) throw new TemplateRuntimeError('tojson: the value is nested too deeply');
  if (typeof value === 'string') return writeString(value, style);
  if (value === undefined || value === null) return 'null';
  if (typeof value === 'number' || typeof value === 'boolean') return JSON.stringify(value);
  if (Array.isArray(value)) {
    return wrap(
      '[',
      value.map((item) => write(item, style, depth + 1)),
      ']',
      style,
      depth,
    );
  }
  if (value instanceof WrittenArguments) return value.toJSON();
  if (value instanceof Namespace) return write(Object.fromEntries(value.members), style, depth);
  if (!isDictionary(value)) throw new TemplateRuntimeError(`tojson cannot write ${typeName(value)}`);
  const keys = Object.keys(value);
  if (style.sortsKeys) keys.sort();
  const members = keys.map((key) => writeString(key, style) + style.keySeparator + write(value[key], style, depth + 1));
  return wrap('{', members, '}', style, depth);
}

function wrap(open: string, parts: readonly string[], close: string, style: JsonStyle, depth: number): string {
  if (style.indent === 0 || parts.length === 0) return open + parts.join(style.itemSeparator) + close;
  const outer = `\n${' '.repeat(style.indent * depth)}`;
  const inner = `\n${' '.repeat(style.indent * (depth + 1))}`;
  return open + inner + parts.join(style.itemSeparator + inner) + outer + close;
}

function writeString(text: string, style: JsonStyle): string {
  const json = JSON.stringify(text);
  if (!style.isAscii) return json;
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
