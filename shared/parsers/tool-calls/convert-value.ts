import { compactJson } from './json-scan.ts';
import { numberToJson, pythonToJson } from './python-literal.ts';
import { type ParameterSchema, schemaType } from './tool-schemas.ts';

const STRING_TYPES: ReadonlySet<string> = new Set(['string', 'str', 'text', 'varchar', 'char', 'enum']);
const INTEGER = /^[+-]?\d+$/;

/** The parameter's value is a string whatever it looks like, except `null` where the format knows that word. */
export function isStringParameter(schema: ParameterSchema | undefined): boolean {
  if (schema === undefined) return true;
  const type = schemaType(schema);
  return type !== undefined && STRING_TYPES.has(type);
}

/** The value of a parameter in XML notation as JSON, by its declared type. `text` is decoded. */
export function convertByType(text: string, schema: ParameterSchema | undefined): string {
  if (text.toLowerCase() === 'null') return 'null';
  if (schema === undefined || isStringParameter(schema)) return JSON.stringify(text);
  const type = schemaType(schema);
  if (type === undefined) {
    return schema.anyOf !== undefined || schema.oneOf !== undefined ? convertStructure(text) : JSON.stringify(text);
  }
  if (/^(int|uint|long|short|unsigned)/.test(type)) return convertInteger(text) ?? JSON.stringify(text);
  if (/^(num|float)/.test(type)) return convertNumber(text) ?? JSON.stringify(text);
  if (type === 'boolean' || type === 'bool' || type === 'binary') return String(text.toLowerCase() === 'true');
  if (/^(object|array|arr|dict|list)/.test(type)) return convertStructure(text);
  return pythonToJson(text) ?? JSON.stringify(text);
}

/** An integer of any size, its digits kept. */
export function convertInteger(text: string): string | undefined {
  return INTEGER.test(text) ? numberToJson(text) : undefined;
}

/** A number with its spelling kept, except that `3.0` is 3. */
export function convertNumber(text: string): string | undefined {
  return numberToJson(text)?.replace(/\.0+$/, '');
}

/** JSON if it is that, else Python's notation, else a string. */
function convertStructure(text: string): string {
  return compactJson(text) ?? pythonToJson(text) ?? JSON.stringify(text);
}
