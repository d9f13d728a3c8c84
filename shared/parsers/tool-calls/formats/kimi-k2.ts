import { isRecord } from '../../../records/index.ts';
import { Markers } from '../../markers.ts';
import type { NewCallId } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { collectJsonValue, compactJson, parseJson, readJsonValue, startsJson } from '../json-scan.ts';
import type { ToolSchemas } from '../parameter-schema.ts';
import { collectUntil, type Parsing, readUntil, skipSpace, type TextSource } from '../scan.ts';
import { argumentsOf } from './json-call.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';

const SECTIONS = ['<|tool_calls_section_begin|>', '<|tool_call_section_begin|>'];
const SECTION_ENDS = ['<|tool_calls_section_end|>', '<|tool_call_section_end|>'];
const CALL = '<|tool_call_begin|>';
const CALL_END = '<|tool_call_end|>';
const ARGUMENTS = '<|tool_call_argument_begin|>';
const PROSE = new Markers([...SECTIONS, ...SECTION_ENDS, CALL, CALL_END, ARGUMENTS]);
const MARKERS = callMarkers(CALL, SECTIONS, SECTION_ENDS);
const IN_CALL = new Markers([ARGUMENTS, CALL_END, CALL, ...SECTION_ENDS]);
const CALL_CLOSED = new Markers([CALL_END, CALL, ...SECTION_ENDS]);
/** Ids and names; a name has neither white space nor brackets. */
const ID = /^(?:functions\.)?([^\s<>{}[\]"]+):\d+$/;
const NAME = /^(?:functions\.)?([^\s<>{}[\]"]+)$/;
/** Call that has only a number. */
const COUNT = /^\d+$/;

/** Makes an id in the form that the model itself writes, for calls that came as plain JSON. */
const kimiId: NewCallId = (_random, index, name) => `functions.${name}:${index}`;

/** Format of Kimi K2 and K2.5: the model chooses the ids, and its history must repeat them. */
export const kimiK2: ToolCallFormat = {
  newId: kimiId,
  keepsSpecialTokens: true,
  callTokens: [...SECTIONS, CALL],
  finder: () => PROSE,
  read: (marker, source, calls, tools) =>
    readMarkedCalls(MARKERS, marker, source, calls, () => readCall(source, calls, tools)),
};

/** Reads a call from after its begin marker to its end; does not read further. */
function* readCall(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const { text, marker } = yield* collectUntil(source, IN_CALL);
  if (marker !== ARGUMENTS) {
    if (marker !== undefined && marker !== CALL_END) source.unread(marker);
    return;
  }
  const id = text.trim();
  if (COUNT.test(id) && !tools.isDeclared(id)) return yield* readCountedCall(id, source, calls, tools);
  const counted = ID.exec(id)?.[1];
  const alone = NAME.exec(id)?.[1];
  const name = counted ?? (alone !== undefined && tools.isDeclared(alone) ? alone : undefined);
  const first = yield* skipSpace(source);
  let stop: string | undefined;
  if (name !== undefined && (first === '{' || first === '[')) {
    const take = (piece: string): void => calls.arguments(piece);
    calls.start(name, counted === undefined ? undefined : id);
    const isWhole = yield* readJsonValue(source, take, true);
    stop = yield* readUntil(source, CALL_CLOSED, isWhole ? undefined : take);
  } else stop = yield* readOtherArguments(first, name, counted === undefined ? undefined : id, source, calls);
  if (stop !== undefined && stop !== CALL_END) source.unread(stop);
}

/** Reads a call without a name. It belongs to the tool that takes its arguments, if that tool can be determined. */
function* readCountedCall(count: string, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  yield* skipSpace(source);
  const json = yield* collectJsonValue(source);
  const { marker } = yield* collectUntil(source, CALL_CLOSED);
  const args = json === undefined ? '' : argumentsOf(json);
  const value = parseJson(args);
  const name = isRecord(value) ? tools.onlyTakerOf(Object.keys(value)) : undefined;
  if (name !== undefined && marker === CALL_END) {
    calls.whole(name, compactJson(args) ?? args, `functions.${name}:${count}`);
  }
  if (marker !== undefined && marker !== CALL_END) source.unread(marker);
}

/**
 * Reads arguments that are not an object: they are passed on unchanged, once the end marker shows that they are
 * complete.
 */
function* readOtherArguments(
  first: string,
  name: string | undefined,
  id: string | undefined,
  source: TextSource,
  calls: CallWriter,
): Parsing<string | undefined> {
  const quoted = first === '"' ? ((yield* collectJsonValue(source)) ?? '') : '';
  const { text, marker } = yield* collectUntil(source, CALL_CLOSED);
  const raw = quoted + text;
  if (name !== undefined && marker === CALL_END) {
    calls.whole(name, argumentsOf(startsJson(first) || raw.trim() === '' ? raw.trim() : raw), id);
  }
  return marker;
}
