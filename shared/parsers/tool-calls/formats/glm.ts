import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import { bareUuid, type CallWriter } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { compactJson, parseJson, writeJsonObject } from '../json-scan.ts';
import {
  convertInteger,
  convertNumber,
  decodeEntities,
  type ParameterSchema,
  schemaType,
  type ToolSchemas,
} from '../parameter-values.ts';
import { pythonToJson } from '../python-literal.ts';
import { collectUntil, type Parsing, readOneOfBehindSpace, readUntil, type TextSource } from '../scan.ts';

const BLOCK = '<tool_call>';
const BLOCK_END = '</tool_call>';
const KEY = '<arg_key>';
const KEY_END = '</arg_key>';
const VALUE = '<arg_value>';
const VALUE_END = '</arg_value>';
const ORPHANS = [BLOCK_END, KEY, KEY_END, VALUE, VALUE_END];
const IN_BLOCK = new Markers([KEY, BLOCK_END]);
const IN_KEY = new Markers([KEY_END, BLOCK_END]);
const IN_VALUE = new Markers([VALUE_END]);
const TO_BLOCK_END = new Markers([BLOCK_END]);
const NAME = /^[^\s<>{}[\]"]+$/;

/**
 * `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`, shown whole.
 * Without the opener a declared name in front of `<arg_key>` is a call too; other tags standing alone are dropped.
 */
export const glm47: ToolCallFormat = {
  newId: bareUuid,
  finder: (tools) => new Markers([BLOCK, ...ORPHANS, ...tools.names.map((name) => name + KEY)]),
  *read(marker, source, calls, tools) {
    if (marker === BLOCK) return yield* readBlock(readWholePairs, source, calls, tools);
    if (marker.endsWith(KEY) && marker !== KEY) {
      yield* readWholePairs(marker.slice(0, -KEY.length), KEY, source, calls, tools);
    } else if (marker !== BLOCK_END) yield* readUntil(source, TO_BLOCK_END);
    return 'markup';
  },
};

const BLOCK_ONLY = new Markers([BLOCK]);

/** The same tags, streamed: strings as they come, other values each as a whole. */
export const poolsideV1: ToolCallFormat = {
  newId: bareUuid,
  finder: () => BLOCK_ONLY,
  read: (_marker, source, calls, tools) => readBlock(streamPairs, source, calls, tools),
};

/** Reads from behind the opener; without a name the block is read over. @param readPairs reads what follows the name */
function* readBlock(
  readPairs: typeof readWholePairs,
  source: TextSource,
  calls: CallWriter,
  tools: ToolSchemas,
): Parsing<Region> {
  const { text, marker } = yield* collectUntil(source, IN_BLOCK);
  const name = text.trim();
  if (NAME.test(name)) yield* readPairs(name, marker, source, calls, tools);
  else if (marker === KEY) yield* readUntil(source, TO_BLOCK_END);
  return 'markup';
}

function* readWholePairs(
  name: string,
  first: string | undefined,
  source: TextSource,
  calls: CallWriter,
  tools: ToolSchemas,
): Parsing {
  const members = new Map<string, string>();
  let stop = first;
  while (stop === KEY) {
    const key = yield* readKey(source);
    if (key === undefined) return;
    const { text, marker } = yield* collectUntil(source, IN_VALUE);
    if (marker === undefined) return;
    members.set(key, convertGlmValue(text, tools.parameter(name, key)));
    stop = yield* readUntil(source, IN_BLOCK);
  }
  if (stop === BLOCK_END) calls.whole(name, writeJsonObject(members));
}

function* streamPairs(
  name: string,
  first: string | undefined,
  source: TextSource,
  calls: CallWriter,
  tools: ToolSchemas,
): Parsing {
  const writer = new ArgumentsWriter(calls, name);
  let stop = first;
  while (stop === KEY) {
    const key = yield* readKey(source);
    if (key === undefined) return;
    const schema = tools.parameter(name, key);
    if (writer.has(key)) stop = yield* readUntil(source, IN_VALUE);
    else if (schema !== undefined && schemaType(schema) === 'string') {
      const member = new StringMember(writer, key, {});
      stop = yield* readUntil(source, IN_VALUE, (piece) => member.push(piece));
      if (stop !== undefined) member.end();
    } else {
      const { text, marker } = yield* collectUntil(source, IN_VALUE);
      stop = marker;
      if (marker !== undefined) writer.member(key, compactJson(text) ?? pythonToJson(text) ?? JSON.stringify(text));
    }
    if (stop !== undefined) stop = yield* readUntil(source, IN_BLOCK);
  }
  if (stop === BLOCK_END) writer.close();
}

/** Reads a key and the tag that opens its value; without that the block is dropped and read over. */
function* readKey(source: TextSource): Parsing<string | undefined> {
  const { text, marker } = yield* collectUntil(source, IN_KEY);
  if (marker !== KEY_END) return undefined;
  if ((yield* readOneOfBehindSpace(source, [VALUE])) !== undefined) return text.trim();
  yield* readUntil(source, TO_BLOCK_END);
  return undefined;
}

function convertGlmValue(raw: string, schema: ParameterSchema | undefined): string {
  const text = decodeEntities(raw);
  const trimmed = text.trim();
  const json = /^[{["]/.test(trimmed) ? compactJson(trimmed) : undefined;
  if (json !== undefined) return json;
  return convertScalar(trimmed, schema === undefined ? undefined : schemaType(schema)) ?? JSON.stringify(text);
}

function convertScalar(text: string, type: string | undefined): string | undefined {
  switch (type) {
    case 'integer':
    case 'int':
      return convertInteger(text);
    case 'number':
    case 'float':
    case 'double':
      return convertNumber(text);
    case 'boolean':
    case 'bool':
      return /^(true|1|yes)$/i.test(text) ? 'true' : /^(false|0|no)$/i.test(text) ? 'false' : undefined;
    case 'array':
      return JSON.stringify(text.split(',').map((item) => item.trim()));
    case 'null':
      return text === '' || text === 'null' || text === 'None' ? 'null' : undefined;
    case 'object':
      return parseJson(text) === null ? 'null' : undefined;
    default:
      return undefined;
  }
}
