import type { ToolDefinition } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import { compactJson } from './json-scan.ts';
import { numberToJson, pythonToJson } from './python-literal.ts';

/** The JSON schema of one parameter, as the client declared it. */
export type ParameterSchema = Readonly<Record<string, unknown>>;

/** The declared tools, looked up by tool and parameter name. Built once a message, and only when a call is read. */
export class ToolSchemas {
  readonly #tools: readonly ToolDefinition[];
  #parameters: Map<string, unknown> | undefined;

  constructor(tools: readonly ToolDefinition[]) {
    this.#tools = tools;
  }

  get names(): string[] {
    return this.#tools.map((tool) => tool.function.name);
  }

  /** `undefined` when the tool or its parameter was not declared. */
  parameter(tool: string, name: string): ParameterSchema | undefined {
    this.#parameters ??= new Map(this.#tools.map((each) => [each.function.name, each.function.parameters]));
    return childSchema(this.#parameters.get(tool), name);
  }
}

/** The schema of a property of an object schema. */
export function childSchema(schema: unknown, name: string): ParameterSchema | undefined {
  const properties = isRecord(schema) ? schema.properties : undefined;
  const child = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return isRecord(child) ? child : undefined;
}

/** The schema's type in lower case; of a list of types the first that is not `null`. */
export function schemaType(schema: ParameterSchema): string | undefined {
  const type = Array.isArray(schema.type) ? schema.type.find((each) => each !== 'null') : schema.type;
  return typeof type === 'string' ? type.toLowerCase() : undefined;
}

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
