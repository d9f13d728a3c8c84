import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { readJsonValue } from '../json-scan.ts';
import { collectUntil, type Parsing, readOneOf, readOneOfBehindSpace, skipSpace, type TextSource } from '../scan.ts';
import { argumentsOf } from './json-call.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';

const CALLS = '<|plamo:begin_tool_requests:plamo|>';
const CALLS_END = '<|plamo:end_tool_requests:plamo|>';
const CALL = '<|plamo:begin_tool_request:plamo|>';
const CALL_END = '<|plamo:end_tool_request:plamo|>';
const NAME = '<|plamo:begin_tool_name:plamo|>';
const NAME_END = '<|plamo:end_tool_name:plamo|>';
const ARGUMENTS = '<|plamo:begin_tool_arguments:plamo|>';
const ARGUMENTS_END = '<|plamo:end_tool_arguments:plamo|>';
/** Note that the arguments are JSON. */
const TYPE = '<|plamo:constrain|>json<|plamo:msg|>';
const PROSE = new Markers([CALLS, CALLS_END, CALL, CALL_END]);
const CLOSERS = [CALL_END, CALL, CALLS_END];
const IN_NAME = new Markers([NAME_END, ...CLOSERS]);
const IN_REST = new Markers([ARGUMENTS_END, ...CLOSERS]);
const MARKERS = callMarkers(CALL, [CALLS], [CALLS_END]);

/**
 * Format of PLaMo 3: a marker before and after the block, each call, its name and its arguments, which are passed on as
 * written.
 */
export const plamo3: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  finder: () => PROSE,
  read: (marker, source, calls) => readMarkedCalls(MARKERS, marker, source, calls, () => readCall(source, calls)),
};

/** Reads a call from after its begin marker to its end; text that is not a call stays in the record. */
function* readCall(source: TextSource, calls: CallWriter): Parsing {
  if ((yield* readOneOfBehindSpace(source, [NAME])) === undefined) return;
  const { text, marker } = yield* collectUntil(source, IN_NAME);
  const name = text.trim();
  if (marker !== NAME_END || name === '') {
    if (marker !== undefined && marker !== NAME_END && marker !== CALL_END) source.unread(marker);
    return;
  }
  if ((yield* readOneOfBehindSpace(source, [ARGUMENTS])) === undefined) return;
  yield* readOneOf(source, [TYPE]);
  if ((yield* skipSpace(source)) === '{') {
    calls.start(name);
    yield* readJsonValue(source, (piece) => calls.arguments(piece));
    const rest = yield* collectUntil(source, IN_REST);
    if (rest.text.trim() !== '') calls.content(rest.text);
    yield* leave(rest.marker, source);
    return;
  }
  const rest = yield* collectUntil(source, IN_REST);
  const args = argumentsOf(rest.text);
  if (rest.marker === ARGUMENTS_END && args.startsWith('{')) calls.whole(name, args);
  yield* leave(rest.marker, source);
}

/** Leaves a call at a marker: reads the end of the call, and nothing that belongs to the next one. */
function* leave(marker: string | undefined, source: TextSource): Parsing {
  if (marker === ARGUMENTS_END) yield* readOneOfBehindSpace(source, [CALL_END]);
  else if (marker !== undefined && marker !== CALL_END) source.unread(marker);
}
