import { compactJson, parseJson } from '../json-scan.ts';
import type { ParameterSchema, ValueKind } from '../parameter-schema.ts';
import { convertByType, convertInteger, convertNumber, decodeEntities } from '../parameter-values.ts';
import { pythonToJson } from '../python-literal.ts';

/** Converts the value of a parameter in GLM's notation to JSON. Strings are not trimmed. */
export function convertGlmValue(raw: string, schema: ParameterSchema | undefined): string {
  const text = decodeEntities(raw);
  const kinds = schema?.kinds;
  if (schema?.isOnly('string') && kinds?.has('null') !== true) return JSON.stringify(text);
  if (kinds?.has('string') || (kinds !== undefined && kinds.size > 1)) return convertByType(text, schema);
  const trimmed = text.trim();
  const json = /^[{["]/.test(trimmed) ? (compactJson(trimmed) ?? pythonToJson(trimmed)) : undefined;
  if (json !== undefined) return json;
  const [kind] = kinds ?? [];
  return (kind === undefined ? undefined : convertScalar(trimmed, kind)) ?? JSON.stringify(text);
}

function convertScalar(text: string, kind: ValueKind): string | undefined {
  switch (kind) {
    case 'integer':
      return convertInteger(text);
    case 'number':
      return convertNumber(text);
    case 'boolean':
      return /^(true|1|yes)$/i.test(text) ? 'true' : /^(false|0|no)$/i.test(text) ? 'false' : undefined;
    case 'array':
      return text === '' ? '[]' : JSON.stringify(text.split(',').map((item) => item.trim()));
    case 'null':
      return text === '' || text === 'null' || text === 'None' ? 'null' : undefined;
    case 'object':
      return parseJson(text) === null ? 'null' : undefined;
    default:
      return undefined;
  }
}
