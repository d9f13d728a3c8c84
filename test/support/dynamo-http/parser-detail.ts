import type { Json } from './records.ts';

/** The fault of a body that a JSON library reports, behind the lead-in. */
export type DetailFault =
  | { readonly kind: 'syntax' }
  | { readonly kind: 'missing' | 'unknown' | 'repeated' | 'field'; readonly field: string }
  | { readonly kind: 'value'; matches(value: Json, path: string): boolean };

/** Fields that accept several shapes, by the type name in the reader. */
const SHAPES: readonly (readonly [RegExp, RegExp])[] = [
  [/UserMessageContent|MessageContent/, /^messages\[\d+\]\.content$/],
  [/ToolChoice/, /^tool_choice$/],
  [/InputItem/, /^input\[\d+\]$/],
  [/Input/, /^input$/],
  [/Prompt$/, /^(?:prompt|system)$/],
  [/Stop$/, /^stop$/],
];

/** Reads a detail that the library of the recorded server (Rust's serde_json) wrote. */
export function faultOfDetail(detail: string): DetailFault {
  const named = /^(?:[\w.[\]]+: )?(missing|unknown|duplicate) field `([^`]+)`/.exec(detail);
  if (named !== null) {
    const kind = named[1] === 'duplicate' ? 'repeated' : (named[1] as 'missing' | 'unknown');
    return { kind, field: String(named[2]) };
  }
  const shape = /untagged enum (\w+)/.exec(detail)?.[1];
  if (shape !== undefined) {
    const path = SHAPES.find(([type]) => type.test(shape))?.[1];
    return { kind: 'value', matches: (_value, at) => path?.test(at) ?? at !== '' };
  }
  const variant = /unknown variant `([^`]*)`/.exec(detail)?.[1];
  if (variant !== undefined) return { kind: 'value', matches: (value) => value === variant };
  const given = /invalid (?:type|value|length).*?(?=, expected)/.exec(detail)?.[0];
  if (given !== undefined) return { kind: 'value', matches: (value) => describes(given, value) };
  const field = /^([a-z_][\w.]*) must /.exec(detail)?.[1];
  return field === undefined ? { kind: 'syntax' } : { kind: 'field', field };
}

/** Whether the library describes `value` in these words: `string "hot"`, `integer `-1``, `sequence`. */
function describes(given: string, value: Json): boolean {
  const what = given.replace(/^invalid (?:type|value|length):? /, '');
  if (what.startsWith('string')) return typeof value === 'string' && what === `string ${JSON.stringify(value)}`;
  if (/^(?:integer|floating point)/.test(what))
    return typeof value === 'number' && Number(/`(.*)`/.exec(what)?.[1]) === value;
  if (what.startsWith('boolean')) return typeof value === 'boolean';
  if (what === 'null') return value === null;
  if (what === 'map') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return Array.isArray(value); // a sequence, or one of the wrong length
}
