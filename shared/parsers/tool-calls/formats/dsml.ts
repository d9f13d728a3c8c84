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

const TAG = '<｜DSML｜';
const TAG_END = '</｜DSML｜';
const INVOKE = `${TAG}invoke name=`;
const INVOKE_END = `${TAG_END}invoke>`;
const PARAMETER = `${TAG}parameter name=`;
const PARAMETER_END = `${TAG_END}parameter>`;
/** Names of blocks: of V4, of V3.2, and variations that models write. */
const BLOCKS = ['tool_calls', 'function_calls', 'toolcalls', 'tool_call', 'tool'];
const STARTS = BLOCKS.map((block) => `${TAG}${block}>`);
const ENDS = BLOCKS.map((block) => `${TAG_END}${block}>`);
/** Tags that mean nothing on their own. */
const ORPHANS = [PARAMETER, INVOKE_END, PARAMETER_END];
const PROSE = new Markers([...STARTS, ...ENDS, INVOKE, ...ORPHANS]);
const MARKERS = callMarkers(INVOKE, STARTS, ENDS);
const IN_INVOKE = new Markers([PARAMETER, INVOKE_END, INVOKE, ...ENDS]);
const IN_VALUE = new Markers([PARAMETER_END, PARAMETER, INVOKE_END, ...ENDS]);

/** Creates the format of DeepSeek V3.2 or V4: invokes with attributes; string parameters stream. */
function dsml(block: string): ToolCallFormat {
  return {
    newId: hexId,
    keepsSpecialTokens: true,
    callTokens: [...STARTS, INVOKE],
    paragraphMarker: `${TAG}${block}>`,
    finder: () => PROSE,
    *read(marker, source, calls, tools) {
      if (marker === PARAMETER) {
        calls.content(marker); // the text after it is shown, and makes no sense without it
        return 'text';
      }
      return yield* readMarkedCalls(MARKERS, marker, source, calls, () => readInvoke(source, calls, tools));
    },
  };
}

export const deepseekV32: ToolCallFormat = dsml('function_calls');
export const deepseekV4: ToolCallFormat = dsml('tool_calls');

/** Reads an invoke from after `invoke name=` to its end; does not read further. */
function* readInvoke(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const name = readAttribute(`name=${(yield* collectUntil(source, CLOSE)).text}`, 'name');
  if (name === undefined) return;
  if ((yield* skipSpace(source)) === '{') {
    const json = yield* collectJsonValue(source);
    if (json === undefined || !isRecord(parseJson(json))) return;
    calls.whole(name, json);
    yield* readOneOfBehindSpace(source, [INVOKE_END]);
    return;
  }
  const before = calls.readCount;
  const writer = new ArgumentsWriter(calls, name);
  let stray = '';
  const readStray = function* (): Parsing<string | undefined> {
    const { text, marker } = yield* collectUntil(source, IN_INVOKE);
    if (text.trim() !== '') stray += text;
    return marker;
  };
  let stop = yield* readStray();
  while (stop === PARAMETER) {
    const { text } = yield* collectUntil(source, CLOSE);
    stop = yield* readParameter(`name=${text}`, source, writer, { tool: name, tools });
    if (stop === PARAMETER_END) stop = yield* readStray();
  }
  if (stop !== undefined) writer.close();
  if (calls.readCount > before) calls.content(stray);
  if (stop !== undefined && stop !== INVOKE_END) source.unread(stop);
}

/** Reads a value and returns the marker that ended it. */
function* readParameter(
  attributes: string,
  source: TextSource,
  writer: ArgumentsWriter,
  { tool, tools }: { readonly tool: string; readonly tools: ToolSchemas },
): Parsing<string | undefined> {
  const key = readAttribute(attributes, 'name') ?? '';
  const kind = readAttribute(attributes, 'string');
  const isWrapper = tools.isWrapper(tool, key);
  if (kind === 'true' && !isWrapper) {
    const member = new StringMember(writer, key, {});
    const stop = yield* readUntil(source, IN_VALUE, (piece) => member.push(piece));
    if (stop !== undefined) member.end();
    return stop;
  }
  const { text, marker } = yield* collectUntil(source, IN_VALUE);
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
