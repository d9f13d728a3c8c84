import { reasonOf } from '../../errors/index.ts';
import { expandHome } from './files.ts';
import { accept, oneText, type Parsed, refuse, type Surroundings, type ValueType } from './value-type.ts';

/** Any JSON value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** What a JSON object may hold. */
export interface JsonLimits {
  readonly allowed?: string;
  /** The known keys; any other is refused. All pass when absent. */
  readonly known?: readonly string[];
}

/** JSON given in place, or the path of a file that its reader opens. */
export type JsonOrFile =
  | { readonly kind: 'json'; readonly value: JsonObject }
  | { readonly kind: 'file'; readonly path: string };

function readSource(text: string, around: Surroundings): Parsed<string> {
  if (!text.startsWith('@')) return accept(text);
  const path = expandHome(text.slice(1), around);
  if (around.kindOf(path) !== 'file') return refuse(`no such file: ${path}`);
  try {
    return accept(around.readText(path));
  } catch (thrown) {
    return refuse(`cannot read ${path}: ${reasonOf(thrown)}`);
  }
}

function parseJson(text: string, around: Surroundings): Parsed<JsonValue> {
  const source = readSource(text.trim(), around);
  if (!source.ok) return source;
  try {
    return accept(JSON.parse(source.value) as JsonValue); // JSON.parse gives nothing else
  } catch (thrown) {
    return refuse(`not JSON: ${reasonOf(thrown)}`);
  }
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function checkObject(value: JsonValue, limits: JsonLimits): Parsed<JsonObject> {
  if (!isObject(value)) return refuse('not a JSON object');
  const unknown = Object.keys(value).find((key) => limits.known !== undefined && !limits.known.includes(key));
  return unknown === undefined ? accept(value) : refuse(`unknown key ${JSON.stringify(unknown)}`);
}

function allowedText(limits: JsonLimits, what: string): string {
  const keys = limits.known === undefined ? '' : ` with keys ${limits.known.join(', ')}`;
  return limits.allowed ?? `${what}${keys}, inline or @file`;
}

/** A JSON object, inline or from `@file`. */
export function jsonObjectType(limits: JsonLimits): ValueType<JsonObject> {
  return oneText({
    name: 'JSON',
    allowed: allowedText(limits, 'a JSON object'),
    parse: (text, around) => {
      const parsed = parseJson(text, around);
      return parsed.ok ? checkObject(parsed.value, limits) : parsed;
    },
    show: (value) => JSON.stringify(value),
  });
}

/** A JSON list of texts, inline or from `@file`. */
export function jsonTextListType(limits: JsonLimits): ValueType<readonly string[]> {
  return oneText({
    name: 'JSON list',
    allowed: allowedText(limits, 'a JSON list of strings'),
    parse: (text, around) => {
      const parsed = parseJson(text, around);
      if (!parsed.ok) return parsed;
      const { value } = parsed;
      if (!Array.isArray(value)) return refuse('not a JSON list');
      const texts: string[] = [];
      for (const element of value as readonly JsonValue[]) {
        if (typeof element !== 'string') return refuse('holds something else than strings');
        texts.push(element);
      }
      return accept(texts);
    },
    show: (value) => JSON.stringify(value),
  });
}

/** A JSON object given in place or from `@file`, or the path of an existing file. */
export function jsonOrFileType(limits: JsonLimits): ValueType<JsonOrFile> {
  return oneText<JsonOrFile>({
    name: 'JSON or file',
    allowed: limits.allowed ?? 'a JSON object, @file or an existing file',
    parse: (text, around) => {
      if (/^\s*[{[@]/.test(text)) {
        const parsed = parseJson(text, around);
        const checked = parsed.ok ? checkObject(parsed.value, limits) : parsed;
        return checked.ok ? accept({ kind: 'json', value: checked.value }) : checked;
      }
      const path = expandHome(text, around);
      return around.kindOf(path) === 'file' ? accept({ kind: 'file', path }) : refuse(`no such file: ${path}`);
    },
    show: (value) => (value.kind === 'file' ? value.path : JSON.stringify(value.value)),
  });
}
