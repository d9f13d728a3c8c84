import { Markers } from '../../markers.ts';
import { ArgumentsWriter } from '../arguments-writer.ts';
import { bareUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { compactJson } from '../json-scan.ts';
import type { ParameterSchema, ToolSchemas } from '../parameter-schema.ts';
import { convertByType, decodeEntities } from '../parameter-values.ts';
import { pythonToJson } from '../python-literal.ts';
import { collectUntil, type Parsing, readOneOfBehindSpace, readUntil, skipSpace, type TextSource } from '../scan.ts';
import { convertGlmValue } from './glm-values.ts';
import {
  TOOL_CALL as BLOCK,
  TOOL_CALL_END as BLOCK_END,
  jsonBlock,
  NAME_ALONE,
  readToolCallBlock,
} from './json-family.ts';
import { isName, type NamedCall, PairStream, pairTags, readKey } from './pair-calls.ts';

const KEY = '<arg_key>';
const KEY_END = '</arg_key>';
const VALUE = '<arg_value>';
const VALUE_END = '</arg_value>';
const ORPHANS = [BLOCK_END, KEY, KEY_END, VALUE, VALUE_END];
const TAGS = pairTags({
  call: BLOCK,
  callEnd: BLOCK_END,
  key: KEY,
  keyEnd: KEY_END,
  value: VALUE,
  valueEnd: VALUE_END,
});
const IN_VALUE = new Markers([VALUE_END, KEY, BLOCK_END, BLOCK]);
const JSON_BLOCK = jsonBlock(BLOCK, BLOCK_END, NAME_ALONE);

/**
 * Format `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`; a call is shown when it is
 * complete. Without the opener, a declared name before `<arg_key>` is a call too; other lone tags are dropped.
 */
export const glm47: ToolCallFormat = {
  newId: bareUuid,
  callTokens: [BLOCK],
  finder: (tools) => new Markers([BLOCK, ...ORPHANS, ...tools.names.map((name) => name + KEY)]),
  *read(marker, source, calls, tools) {
    if (marker === BLOCK) return yield* readBlock(readWholePairs, source, calls, tools);
    if (!marker.endsWith(KEY) || marker === KEY) return 'markup';
    source.record(marker);
    yield* readWholePairs({ name: marker.slice(0, -KEY.length), first: KEY }, source, calls, tools);
    return showRest(source, calls);
  },
};

const BLOCKS = new Markers([BLOCK, BLOCK_END]);

/** Format with the same tags, streamed: strings as they arrive, each other value as a whole. */
export const poolsideV1: ToolCallFormat = {
  newId: bareUuid,
  callTokens: [BLOCK],
  finder: () => BLOCKS,
  *read(marker, source, calls, tools) {
    return marker === BLOCK ? yield* readBlock(streamPairs, source, calls, tools) : 'markup';
  },
};

/** Reads the text after the name, including the end of the block. Text that is not a call stays in the record. */
type ReadPairs = (call: NamedCall, source: TextSource, calls: CallWriter, tools: ToolSchemas) => Parsing;

/** Reads from after the opener. Anything that is not a call is text. */
function* readBlock(readPairs: ReadPairs, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region> {
  source.record(BLOCK);
  if ((yield* skipSpace(source)) === '{') return yield* readToolCallBlock(JSON_BLOCK, source, calls, tools);
  const { text, marker } = yield* collectUntil(source, TAGS.inCall);
  const name = text.trim();
  if (marker === BLOCK) source.unread(BLOCK);
  else if (isName(name)) yield* readPairs({ name, first: marker }, source, calls, tools);
  else if (marker === BLOCK_END && name === '') source.forget();
  return showRest(source, calls);
}

function showRest(source: TextSource, calls: CallWriter): Region {
  const region = source.isRecording ? 'text' : 'markup';
  calls.content(source.takeRecord());
  return region;
}

function* readWholePairs(
  { name, first }: NamedCall,
  source: TextSource,
  calls: CallWriter,
  tools: ToolSchemas,
): Parsing {
  const writer = new ArgumentsWriter(calls, name);
  calls.hold();
  let stray = '';
  let stop = first;
  while (stop === KEY) {
    let key = yield* readKey(TAGS, source);
    while (key !== undefined) {
      const value: GlmValue | undefined = yield* readValue(source, { tool: name, key, writer }, tools);
      if (value === undefined) break;
      if (tools.isWrapper(name, key)) writer.wrapped(key, decodeEntities(value.text));
      else if (!writer.has(key)) writer.member(key, convertGlmValue(value.text, tools.parameter(name, key)));
      stop = value.stop;
      key = value.nextKey;
    }
    if (stop !== VALUE_END) break; // none of the value was read, or it ended the block
    const between = yield* collectUntil(source, TAGS.inCall);
    if (between.text.trim() !== '') stray += between.text;
    stop = between.marker;
  }
  if (stop === BLOCK) source.unread(BLOCK);
  if (stop !== BLOCK_END) {
    calls.drop();
    return;
  }
  writer.close();
  calls.release();
  calls.content(stray);
}

interface GlmValue {
  readonly text: string;
  readonly stop: string;
  /** Key of the parameter that begins here, because the value has no closing tag. */
  readonly nextKey?: string;
}

/**
 * Reads a value, which may contain tags as text. The end of the block ends the value only if nothing but another block
 * follows, or if no closing tag ever does. Another key ends it only if the tool has that parameter and it was not
 * written yet.
 */
function* readValue(
  source: TextSource,
  { tool, key, writer }: { readonly tool: string; readonly key: string; readonly writer: ArgumentsWriter },
  tools: ToolSchemas,
): Parsing<GlmValue | undefined> {
  let text = '';
  /** Length of the value before the first end of a block. */
  let closed: number | undefined;
  const take = (piece: string): void => {
    text += piece;
  };
  for (;;) {
    const stop = yield* readUntil(source, IN_VALUE, take);
    if (stop === VALUE_END) return { text, stop };
    if (stop === undefined || (stop !== BLOCK_END && closed !== undefined)) {
      if (closed === undefined) return undefined;
      source.unread(text.slice(closed + BLOCK_END.length) + (stop ?? ''));
      return { text: text.slice(0, closed), stop: BLOCK_END };
    }
    if (stop === BLOCK_END) {
      const next = yield* readOneOfBehindSpace(source, [BLOCK]);
      if (next !== undefined) source.unread(next);
      if (next !== undefined || source.isAtEnd) return { text, stop };
      closed ??= text.length;
    } else if (stop === KEY) {
      const next = yield* collectUntil(source, KEY_OR_TEXT);
      const isKey = next.marker === KEY_END && next.text !== key && !writer.has(next.text);
      if (
        isKey &&
        tools.takesParameter(tool, next.text) &&
        (yield* readOneOfBehindSpace(source, [VALUE])) !== undefined
      ) {
        return { text, stop: VALUE_END, nextKey: next.text };
      }
      text += KEY + next.text;
      if (next.marker === KEY_END) text += KEY_END;
      else if (next.marker !== undefined) source.unread(next.marker);
      continue;
    }
    text += stop;
  }
}

const KEY_OR_TEXT = new Markers([KEY_END, '\n', '<arg', '</tool']);

function* streamPairs(call: NamedCall, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  yield* new PairStream(TAGS, source, calls, tools, convertPoolsideValue).read(call);
}

function convertPoolsideValue(text: string, schema: ParameterSchema | undefined): string {
  if (schema?.kinds?.has('string')) return convertByType(text, schema);
  return compactJson(text) ?? pythonToJson(text) ?? JSON.stringify(text);
}
