import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { writeJsonObject } from '../json-scan.ts';
import type { ParameterSchema, ToolSchemas } from '../parameter-schema.ts';
import { convertByType, decodeEntities, isStringParameter } from '../parameter-values.ts';
import { collectUntil, type Parsing, readUntil, TAG_END, type TextSource, tagName } from '../scan.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';

const SPACE = ']<]minimax[>[';
const BLOCK = `${SPACE}<tool_call>`;
const BLOCK_END = `${SPACE}</tool_call>`;
const INVOKE = `${SPACE}<invoke name=`;
const PROSE = new Markers([BLOCK, BLOCK_END, INVOKE]);
const TAG = new Markers([SPACE]);
const MARKERS = callMarkers(INVOKE, [BLOCK], [BLOCK_END]);
const DEPTH_MAX = 64;

/**
 * Format of namespaced XML with a tag for each parameter. A declared string goes out as it arrives. Any other parameter
 * goes out once the next one shows that it is not repeated: neighbours of the same name form an array.
 */
export const minimaxM3: ToolCallFormat = {
  newId: prefixedUuid,
  callTokens: [BLOCK],
  finder: () => PROSE,
  read: (marker, source, calls, tools) =>
    readMarkedCalls(MARKERS, marker, source, calls, () => readInvoke(source, calls, tools)),
};

interface Tag {
  /** Text before the tag. */
  readonly text: string;
  /** Text inside the angle brackets. */
  readonly name: string;
}

/** Inside of a tag: a name, with at most one attribute; anything more is text. */
const TAG_INSIDE = /^\s*<?\s*\/?(?:invoke\s+name=[^<\n]*|[^\s<>]*)\s*$/;

/**
 * Reads to the next tag, and the inside of the tag.
 * @param takeRest receives the end of a text without a further tag, except a part that may have become a tag.
 * @param take receives the text before the tag piece by piece, and text that only looks like a tag. Without it, the tag
 * contains them.
 */
function* readTag(
  source: TextSource,
  takeRest: (text: string) => void,
  take?: (piece: string) => void,
): Parsing<Tag | undefined> {
  let text = '';
  const add =
    take ??
    ((piece: string): void => {
      text += piece;
    });
  for (;;) {
    if ((yield* readUntil(source, TAG, add)) === undefined) {
      takeRest(text);
      return undefined;
    }
    const { text: inside, marker } = yield* collectUntil(source, TAG_END);
    const isTag = TAG_INSIDE.test(inside);
    if (marker === undefined) {
      takeRest(isTag ? text : text + SPACE + inside);
      return undefined;
    }
    if (isTag) return { text, name: inside.trim().replace(/^</, '').trim() };
    add(`${SPACE}${inside}>`);
  }
}

/**
 * Reads from after `<invoke name=`. If the end of the block ends the invoke, it is not read. Text that is not a call
 * stays in the record.
 */
function* readInvoke(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const head = yield* collectUntil(source, TAG_END);
  const name = head.marker === undefined ? undefined : tagName(head.text);
  if (name === undefined) return;
  const before = calls.readCount;
  let stray = '';
  yield* readParameters(name, { source, calls, tools }, (text) => {
    stray += text;
  });
  if (calls.readCount > before) calls.content(stray);
}

function* readParameters(
  name: string,
  { source, calls, tools }: { readonly source: TextSource; readonly calls: CallWriter; readonly tools: ToolSchemas },
  takeStray: (text: string) => void,
): Parsing {
  const writer = new ArgumentsWriter(calls, name);
  let repeated: { readonly key: string; readonly values: string[] } | undefined;
  const flush = (): void => {
    if (repeated !== undefined) writer.member(repeated.key, mergeRepeated(repeated.values));
    repeated = undefined;
  };
  for (;;) {
    const tag = yield* readTag(source, takeStray);
    if (tag === undefined) return;
    if (tag.text.trim() !== '') takeStray(tag.text);
    if (tag.name === '/invoke' || tag.name === '/tool_call') {
      flush();
      writer.close();
      if (tag.name === '/tool_call') source.unread(BLOCK_END);
      return;
    }
    if (tag.name.startsWith('/')) continue;
    if (repeated?.key !== tag.name) flush();
    const schema = tools.parameter(name, tag.name);
    if (schema !== undefined && isStringParameter(schema)) {
      if (!(yield* streamString(source, new StringMember(writer, tag.name, STRING_RULES), takeStray))) return;
      continue;
    }
    const value = yield* readNode({ source, takeRest: takeStray }, schema, 0);
    if (value === undefined) return;
    repeated ??= { key: tag.name, values: [] };
    repeated.values.push(value);
  }
}

const STRING_RULES = { decodesEntities: true, knowsNull: true };

/**
 * Streams a declared string. Tags inside it have no meaning and are left out. Returns false when the text ends first.
 */
function* streamString(source: TextSource, member: StringMember, takeRest: (text: string) => void): Parsing<boolean> {
  for (let depth = 0; depth >= 0; ) {
    const tag = yield* readTag(source, takeRest, (piece) => member.push(piece));
    if (tag === undefined) return false;
    depth += tag.name.startsWith('/') ? -1 : 1;
  }
  member.end();
  return true;
}

/** Returns the content of a tag up to its closing tag, as JSON; undefined when the text ends first. */
function* readNode(
  from: { readonly source: TextSource; readonly takeRest: (text: string) => void },
  schema: ParameterSchema | undefined,
  depth: number,
): Parsing<string | undefined> {
  const children: [string, string][] = [];
  let text = '';
  for (;;) {
    const tag = yield* readTag(from.source, (rest) => from.takeRest(text + rest));
    if (tag === undefined) return undefined;
    text += tag.text;
    if (tag.name.startsWith('/')) return writeNode(decodeEntities(text), children, schema);
    if (depth === DEPTH_MAX) continue;
    const child = yield* readNode(from, schemaOfChild(schema, tag.name), depth + 1);
    if (child === undefined) return undefined;
    children.push([tag.name, child]);
  }
}

function schemaOfChild(schema: ParameterSchema | undefined, name: string): ParameterSchema | undefined {
  if (name === 'item' && schema?.kinds?.has('array')) return schema.items();
  return schema?.property(name);
}

function writeNode(text: string, children: readonly [string, string][], schema: ParameterSchema | undefined): string {
  if (children.length === 0) return convertByType(text, schema);
  const isList = schema?.kinds?.has('array') === true && children.every(([name]) => name === 'item');
  if (isList) return `[${children.map(([, json]) => json).join(',')}]`;
  const members = new Map<string, string[]>();
  for (const [name, json] of children) {
    const values = members.get(name);
    if (values === undefined) members.set(name, [json]);
    else values.push(json);
  }
  if (text.trim() !== '') members.set('$text', [JSON.stringify(text.trim())]);
  return writeJsonObject(Array.from(members, ([name, values]) => [name, mergeRepeated(values)] as const));
}

function mergeRepeated(values: readonly string[]): string {
  return values.length === 1 ? (values[0] as string) : `[${values.join(',')}]`;
}
