import { isRecord } from '../../../records/index.ts';
import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import { hexId } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { collectJsonValue, compactJson, parseJson } from '../json-scan.ts';
import type { ParameterSchema, ToolSchemas } from '../parameter-schema.ts';
import { pythonToJson } from '../python-literal.ts';
import {
  TAG_END as CLOSE,
  collectUntil,
  type Parsing,
  readOneOfBehindSpace,
  readUntil,
  skipSpace,
  type TextSource,
} from '../scan.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';

/** Names of blocks: of V4, of V3.2, and variations that models write. */
const BLOCKS = ['tool_calls', 'function_calls', 'toolcalls', 'tool_call', 'tool'];

/** Tags of one family of models, which share a prefix, with their markers compiled. */
interface DsmlTags {
  readonly starts: readonly string[];
  readonly ends: readonly string[];
  readonly invoke: string;
  readonly invokeEnd: string;
  readonly parameter: string;
  readonly parameterEnd: string;
  readonly inInvoke: Markers;
  readonly inValue: Markers;
}

/** @param prefix what every name of a tag begins with */
function dsmlTags(prefix: string, blocks: readonly string[]): DsmlTags {
  const ends = blocks.map((block) => `</${prefix}${block}>`);
  const invoke = `<${prefix}invoke name=`;
  const invokeEnd = `</${prefix}invoke>`;
  const parameter = `<${prefix}parameter name=`;
  const parameterEnd = `</${prefix}parameter>`;
  return {
    starts: blocks.map((block) => `<${prefix}${block}>`),
    ends,
    invoke,
    invokeEnd,
    parameter,
    parameterEnd,
    inInvoke: new Markers([parameter, invokeEnd, invoke, ...ends]),
    inValue: new Markers([parameterEnd, parameter, invokeEnd, ...ends]),
  };
}

/**
 * Creates a format of invokes with attributes; string parameters stream.
 * @param block tag of the block that the models' template writes after an empty line
 */
function dsml(tags: DsmlTags, block: string): ToolCallFormat {
  const { starts, ends, invoke, invokeEnd, parameter, parameterEnd } = tags;
  const prose = new Markers([...starts, ...ends, invoke, parameter, invokeEnd, parameterEnd]);
  const markers = callMarkers(invoke, starts, ends);
  return {
    newId: hexId,
    keepsSpecialTokens: true,
    callTokens: [...starts, invoke],
    paragraphMarker: block,
    finder: () => prose,
    *read(marker, source, calls, tools) {
      if (marker === parameter) {
        calls.content(marker); // the text after it is shown, and makes no sense without it
        return 'text';
      }
      return yield* readMarkedCalls(markers, marker, source, calls, () => readInvoke(tags, source, calls, tools));
    },
  };
}

const DEEPSEEK = dsmlTags('｜DSML｜', BLOCKS);
/** Tags of V4.1, whose names begin with a space. */
const DEEPSEEK_SPACED = dsmlTags('｜DSML｜ ', ['calls', ...BLOCKS]);
const GIGACHAT = dsmlTags('｜GCML｜', BLOCKS);

export const deepseekV32: ToolCallFormat = dsml(DEEPSEEK, '<｜DSML｜function_calls>');
export const deepseekV4: ToolCallFormat = dsml(DEEPSEEK, '<｜DSML｜tool_calls>');
export const deepseekV41: ToolCallFormat = dsml(DEEPSEEK_SPACED, '<｜DSML｜ calls>');
export const gigachat35: ToolCallFormat = dsml(GIGACHAT, '<｜GCML｜tool_calls>');

/** Reads an invoke from after `invoke name=` to its end; does not read further. */
function* readInvoke(tags: DsmlTags, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const name = readAttribute(`name=${(yield* collectUntil(source, CLOSE)).text}`, 'name');
  if (name === undefined) return;
  if ((yield* skipSpace(source)) === '{') {
    const json = yield* collectJsonValue(source);
    if (json === undefined || !isRecord(parseJson(json))) return;
    calls.whole(name, json);
    yield* readOneOfBehindSpace(source, [tags.invokeEnd]);
    return;
  }
  const before = calls.readCount;
  const writer = new ArgumentsWriter(calls, name);
  let stray = '';
  const readStray = function* (): Parsing<string | undefined> {
    const { text, marker } = yield* collectUntil(source, tags.inInvoke);
    if (text.trim() !== '') stray += text;
    return marker;
  };
  let stop = yield* readStray();
  while (stop === tags.parameter) {
    const { text } = yield* collectUntil(source, CLOSE);
    const type = { inValue: tags.inValue, tool: name, tools };
    stop = yield* readParameter(`name=${text}`, source, writer, type);
    if (stop === tags.parameterEnd) stop = yield* readStray();
  }
  if (stop !== undefined) writer.close();
  if (calls.readCount > before) calls.content(stray);
  if (stop !== undefined && stop !== tags.invokeEnd) source.unread(stop);
}

/** Reads a value and returns the marker that ended it. */
function* readParameter(
  attributes: string,
  source: TextSource,
  writer: ArgumentsWriter,
  { inValue, tool, tools }: { readonly inValue: Markers; readonly tool: string; readonly tools: ToolSchemas },
): Parsing<string | undefined> {
  const key = readAttribute(attributes, 'name') ?? '';
  const kind = readAttribute(attributes, 'string');
  const isWrapper = tools.isWrapper(tool, key);
  if (kind === 'true' && !isWrapper) {
    const member = new StringMember(writer, key, {});
    const stop = yield* readUntil(source, inValue, (piece) => member.push(piece));
    if (stop !== undefined) member.end();
    return stop;
  }
  const { text, marker } = yield* collectUntil(source, inValue);
  if (marker === undefined) return undefined;
  if (isWrapper) writer.wrapped(key, text);
  else writer.member(key, convertValue(text, kind, tools.parameter(tool, key)));
  return marker;
}

/**
 * Converts a value that is not marked as a string: from JSON or, if the model or the schema excludes a string, from
 * Python's notation.
 */
function convertValue(text: string, kind: string | undefined, schema: ParameterSchema | undefined): string {
  const trimmed = text.trim();
  if (schema?.isOnly('string')) {
    return trimmed === 'null' && schema.kinds?.has('null') ? trimmed : JSON.stringify(text);
  }
  const isPython = schema?.kinds === undefined ? kind === 'false' : !schema.kinds.has('string');
  return compactJson(text) ?? (isPython ? pythonToJson(trimmed) : undefined) ?? JSON.stringify(text);
}

function readAttribute(attributes: string, name: string): string | undefined {
  const value = new RegExp(`(?:^|\\s)${name}\\s*=\\s*"([^"]*)"`).exec(attributes)?.[1];
  return value === '' ? undefined : value;
}
