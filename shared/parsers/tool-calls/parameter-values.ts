import { compactJson } from './json-scan.ts';
import type { ParameterSchema, ValueKind } from './parameter-schema.ts';
import { numberToJson, pythonToJson } from './python-literal.ts';

const INTEGER = /^[+-]?\d+$/;
/** Whole number written with a point. */
const WHOLE = /^[+-]?\d+\.0+$/;
/** Numbers as JSON writes them. If strings are allowed, other spellings such as `007` may be text. */
const JSON_INTEGER = /^-?(?:0|[1-9]\d*)$/;
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Returns whether the parameter's value is always a string, except `null` if the format knows that word. */
export function isStringParameter(schema: ParameterSchema | undefined): boolean {
  return schema === undefined || schema.isOnly('string');
}

/**
 * Converts the value of a parameter in XML notation to JSON, by its declared type. A text that fits no other allowed
 * kind is a string, character for character.
 * @param text decoded, without the characters that the format writes around values
 */
export function convertByType(text: string, schema: ParameterSchema | undefined): string {
  const trimmed = text.trim();
  if (trimmed.toLowerCase() === 'null') return 'null';
  const kinds = schema?.kinds;
  if (schema === undefined || kinds === undefined || schema.isOnly('string')) return JSON.stringify(text);
  if (kinds.has('string')) return convertBesideStrings(trimmed, kinds) ?? JSON.stringify(text);
  if (schema.isOnly('boolean') && !kinds.has('null')) return String(trimmed.toLowerCase() === 'true');
  for (const kind of LENIENT_ORDER) {
    const json = kinds.has(kind) ? LENIENT[kind](trimmed) : undefined;
    if (json !== undefined) return json;
  }
  return JSON.stringify(text);
}

/** Converts strictly: if strings are allowed too, only a text that cannot be meant as a string becomes another kind. */
function convertBesideStrings(text: string, kinds: ReadonlySet<ValueKind>): string | undefined {
  if (kinds.has('number') && JSON_NUMBER.test(text)) return convertNumber(text);
  if (kinds.has('integer') && JSON_INTEGER.test(text)) return text;
  if (kinds.has('boolean') && (text === 'true' || text === 'false')) return text;
  if (kinds.has('object') && text.startsWith('{')) return compactJson(text);
  if (kinds.has('array') && text.startsWith('[')) return compactJson(text);
  return undefined;
}

const LENIENT_ORDER = ['null', 'integer', 'number', 'boolean', 'object', 'array', 'any'] as const;

const LENIENT: Readonly<Record<(typeof LENIENT_ORDER)[number], (text: string) => string | undefined>> = {
  null: (text) => (text === '' || text === 'None' ? 'null' : undefined),
  integer: convertInteger,
  number: convertNumber,
  boolean: (text) => (/^(?:true|false)$/i.test(text) ? text.toLowerCase() : undefined),
  object: convertStructure,
  array: convertStructure,
  any: (text) => pythonToJson(text),
};

/** Converts an integer of any size and keeps its digits; `1.0` is an integer too. */
export function convertInteger(text: string): string | undefined {
  const digits = WHOLE.test(text) ? text.replace(/\.0+$/, '') : text;
  return INTEGER.test(digits) ? numberToJson(digits) : undefined;
}

/** Converts a number and keeps its spelling, except that `3.0` becomes 3. */
export function convertNumber(text: string): string | undefined {
  return numberToJson(text)?.replace(/\.0+$/, '');
}

/** Converts from JSON or, failing that, from Python's notation. */
function convertStructure(text: string): string | undefined {
  return compactJson(text) ?? pythonToJson(text);
}

/**
 * Entities as the models' templates escape them. They are decoded one after another in this order, so a decoded `&` may
 * complete a later one.
 */
const ENTITIES: readonly (readonly [string, string])[] = [
  ['&lt;', '<'],
  ['&gt;', '>'],
  ['&amp;', '&'],
  ['&quot;', '"'],
  ['&#x27;', "'"],
  ['&#39;', "'"],
];

/** Texts that decode to one character. */
const FORMS = [...ENTITIES.map(([entity]) => entity), '&amp;quot;', '&amp;#x27;', '&amp;#39;'];

export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return ENTITIES.reduce((decoded, [entity, character]) => decoded.replaceAll(entity, character), text);
}

/** Creates a `decodeEntities` for text that arrives in pieces: it holds back a part that may become an entity. */
export function createEntityDecoder(): (text: string, isLast: boolean) => string {
  let held = '';
  return (piece, isLast) => {
    const text = held + piece;
    const at = isLast ? -1 : text.lastIndexOf('&');
    const tail = at < 0 ? '' : text.slice(at);
    const isOpen = tail !== '' && FORMS.some((form) => form.length > tail.length && form.startsWith(tail));
    held = isOpen ? tail : '';
    return decodeEntities(isOpen ? text.slice(0, at) : text);
  };
}
