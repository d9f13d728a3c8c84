import { compactJson } from './json-scan.ts';
import type { ParameterSchema, ValueKind } from './parameter-schema.ts';
import { numberToJson, pythonToJson } from './python-literal.ts';

const INTEGER = /^[+-]?\d+$/;
/** A whole number that is written with a point. */
const WHOLE = /^[+-]?\d+\.0+$/;
/** As JSON writes them. What looks otherwise, like `007`, may be a text where texts are let through. */
const JSON_INTEGER = /^-?(?:0|[1-9]\d*)$/;
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** The parameter's value is a string whatever it looks like, except `null` where the format knows that word. */
export function isStringParameter(schema: ParameterSchema | undefined): boolean {
  return schema === undefined || schema.isOnly('string');
}

/**
 * The value of a parameter in XML notation as JSON, by its declared type. A text that fits nothing else that is let through is a
 * string, character for character.
 * @param text decoded, without what the format writes around values
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

/** Strict: where a string is let through too, only what cannot be meant as one is something else. */
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

/** An integer of any size, its digits kept; `1.0` is one, too. */
export function convertInteger(text: string): string | undefined {
  const digits = WHOLE.test(text) ? text.replace(/\.0+$/, '') : text;
  return INTEGER.test(digits) ? numberToJson(digits) : undefined;
}

/** A number with its spelling kept, except that `3.0` is 3. */
export function convertNumber(text: string): string | undefined {
  return numberToJson(text)?.replace(/\.0+$/, '');
}

/** JSON if it is that, else Python's notation. */
function convertStructure(text: string): string | undefined {
  return compactJson(text) ?? pythonToJson(text);
}

/**
 * Entities as the models' templates escape them. They are decoded one after the other in this order, so that a decoded
 * `&` may complete a later one.
 */
const ENTITIES: readonly (readonly [string, string])[] = [
  ['&lt;', '<'],
  ['&gt;', '>'],
  ['&amp;', '&'],
  ['&quot;', '"'],
  ['&#x27;', "'"],
  ['&#39;', "'"],
];

/** Every text that decodes to one character. */
const FORMS = [...ENTITIES.map(([entity]) => entity), '&amp;quot;', '&amp;#x27;', '&amp;#39;'];

export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return ENTITIES.reduce((decoded, [entity, character]) => decoded.replaceAll(entity, character), text);
}

/** `decodeEntities` for text that comes in pieces: what may become an entity is held back until that is known. */
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
