import { reasonOf } from '../../errors/index.ts';
import {
  accept,
  oneText,
  type Parsed,
  type PathTarget,
  refuse,
  type Surroundings,
  type ValueType,
} from './value-type.ts';

/** Any JSON value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** Limits of a JSON object. */
export interface JsonLimits {
  readonly allowed?: string;
  /** Known keys; any other key is refused. Without this list, every key is accepted. */
  readonly known?: readonly string[];
}

/** JSON given in place, or the path of a file that its reader opens. */
export type JsonOrFile =
  | { readonly kind: 'json'; readonly value: JsonObject }
  | { readonly kind: 'file'; readonly path: string };

function readSource(text: string, around: Surroundings): Parsed<string> {
  if (!text.startsWith('@')) return accept(text);
  const path = findFile(text.slice(1), around);
  if (!path.ok) return path;
  try {
    return accept(around.readText(path.value));
  } catch (thrown) {
    return refuse(`cannot read ${path.value}: ${reasonOf(thrown)}`);
  }
}

/** Returns the whole path of an existing file. */
function findFile(text: string, around: Surroundings): Parsed<string> {
  const path = expandHome(text, around);
  const found = around.kindOf(path);
  if (typeof found === 'object') return refuse(`${path} ${found.fault}`);
  return found === 'file' ? accept(path) : refuse(`no such file: ${path}`);
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
  return jsonType('JSON', allowedText(limits, 'a JSON object'), (value) => checkObject(value, limits));
}

/** A JSON list of texts, inline or from `@file`. */
export function jsonTextListType(limits: JsonLimits): ValueType<readonly string[]> {
  return jsonType('JSON list', allowedText(limits, 'a JSON list of strings'), (value) => {
    if (!Array.isArray(value)) return refuse('not a JSON list');
    const texts: readonly unknown[] = value;
    const areTexts = texts.every((element) => typeof element === 'string');
    return areTexts ? accept(texts) : refuse('has elements that are not strings');
  });
}

function jsonType<T>(name: string, allowed: string, check: (value: JsonValue) => Parsed<T>): ValueType<T> {
  return oneText({
    name,
    allowed,
    parse: (text, around) => {
      const parsed = parseJson(text, around);
      return parsed.ok ? check(parsed.value) : parsed;
    },
    show: (value) => JSON.stringify(value),
  });
}

/** A JSON object given in place or from `@file`, or the path of an existing file. */
export function jsonOrFileType(limits: JsonLimits): ValueType<JsonOrFile> {
  return oneText<JsonOrFile>({
    name: 'JSON or file',
    target: { kind: 'file', isWritten: false },
    allowed: limits.allowed ?? 'a JSON object, @file or an existing file',
    parse: (text, around) => {
      if (/^\s*[{[@]/.test(text)) {
        const parsed = parseJson(text, around);
        const checked = parsed.ok ? checkObject(parsed.value, limits) : parsed;
        return checked.ok ? accept({ kind: 'json', value: checked.value }) : checked;
      }
      const path = findFile(text, around);
      return path.ok ? accept({ kind: 'file', path: path.value }) : path;
    },
    show: (value) => (value.kind === 'file' ? value.path : JSON.stringify(value.value)),
  });
}

/** Limits of a path. */
export interface PathLimits {
  readonly allowed?: string;
  /** Whether the process writes it, so that it need not exist. */
  readonly written?: true;
  /** Whether `$NAME` and `${NAME}` stand for variables. */
  readonly expandsVariables?: true;
  /** Exact size that the file must have. */
  readonly sizeBytes?: number;
  /** Text added to the message if nothing exists there. */
  readonly hint?: string;
}

type PathKind = PathTarget['kind'];

/** Replaces `~` and `~/...` by the home folder. */
export function expandHome(text: string, around: Surroundings): string {
  return text === '~' || text.startsWith('~/') ? around.homeDir + text.slice(1) : text;
}

function expandVariables(text: string, around: Surroundings): string {
  return text.replace(/\$(?:\{(\w+)\}|(\w+))/g, (whole, braced, bare) => around.env[String(braced ?? bare)] ?? whole);
}

/** Accepts `path` if what exists there is of the kind and within the limits. */
export function checkPath(path: string, wanted: PathKind, limits: PathLimits, around: Surroundings): Parsed<string> {
  const found = around.kindOf(path);
  if (typeof found === 'object') return refuse(found.fault);
  const hint = limits.hint === undefined ? '' : `; ${limits.hint}`;
  if (found === 'none') return limits.written === true ? accept(path) : refuse(`no such ${wanted}${hint}`);
  if (wanted !== 'file or folder' && found !== wanted) return refuse(`is a ${found}, not a ${wanted}`);
  if (limits.sizeBytes !== undefined && around.sizeBytes(path) !== limits.sizeBytes) {
    return refuse(`has ${around.sizeBytes(path)} bytes, not ${limits.sizeBytes}`);
  }
  return accept(path);
}

/** The path of a file or folder that exists, or that the process will write. */
export function pathType(wanted: PathKind, limits: PathLimits): ValueType<string> {
  return oneText({
    name: wanted,
    target: { kind: wanted, isWritten: limits.written === true, sizeBytes: limits.sizeBytes },
    allowed: limits.allowed ?? (limits.written === true ? '' : `an existing ${wanted}`),
    parse: (text, around) => {
      if (text === '') return refuse('empty');
      const home = expandHome(text, around);
      return checkPath(limits.expandsVariables === true ? expandVariables(home, around) : home, wanted, limits, around);
    },
  });
}
