import { ExactNumber, exactMember } from '../../protocol/index.ts';
import { spend, spendChars, spendText } from './budget.ts';
import { dictionaryOf, entriesOf } from './dictionaries.ts';
import { type Dictionary, Namespace, Tuple, WrittenArguments } from './values.ts';

/** Returns `value` as `{{ }}` prints it: undefined as nothing, the rest as Python's `str`. */
export function toText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === undefined) return '';
  return value instanceof WrittenArguments ? value.toString() : toRepr(value);
}

/** Returns Python's `repr` of a value. */
function toRepr(value: unknown): string {
  spend(1);
  switch (typeof value) {
    case 'string':
      return reprOfString(value);
    case 'boolean':
      return value ? 'True' : 'False';
    case 'undefined':
      return 'Undefined';
    case 'object':
      break;
    default:
      return String(value);
  }
  if (value === null) return 'None';
  if (Array.isArray(value)) {
    const items = Array.from(value, (item, at) => toRepr(exactMember(value, at, item)));
    const inside = joinParts(items, ', ');
    return value instanceof Tuple ? `(${inside}${value.length === 1 ? ',' : ''})` : `[${inside}]`;
  }
  if (value instanceof ExactNumber) return value.text;
  if (value instanceof Namespace) return `<Namespace ${toRepr(Object.fromEntries(value.members))}>`;
  const entries = entriesOf(value as Dictionary).map(([key, member]) => `${toRepr(key)}: ${toRepr(member)}`);
  return `{${joinParts(entries, ', ')}}`;
}

/** Joins parts of a larger text. */
export function joinParts(parts: readonly string[], separator: string): string {
  spendChars(parts.reduce((sum, part) => sum + part.length, separator.length * parts.length));
  return parts.join(separator);
}

function reprOfString(text: string): string {
  spendText(text.length);
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t')
    .replaceAll(quote, `\\${quote}`);
  return quote + escaped + quote;
}

/** Makes the mapping that a template writes between braces. */
export function makeDictionary(members: readonly (readonly [unknown, unknown])[]): Dictionary {
  const isByNumber = members.length > 0 && members.every(([key]) => typeof key === 'number');
  return dictionaryOf(
    members.map(([key, value]) => [toText(key), value] as const),
    isByNumber,
  );
}
