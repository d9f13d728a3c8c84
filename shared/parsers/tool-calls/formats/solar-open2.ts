import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import type { ToolSchemas } from '../parameter-schema.ts';
import { convertByType } from '../parameter-values.ts';
import { collectUntil, type Parsing, type TextSource } from '../scan.ts';
import { isName, PairStream, pairTags } from './pair-calls.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';

const CALL = '<|tool_call:start|>';
const CALL_END = '<|tool_call:end|>';
const TAGS = pairTags({
  call: CALL,
  callEnd: CALL_END,
  key: '<|tool_arg:start|>',
  value: '<|tool_arg:value|>',
  valueEnd: '<|tool_arg:end|>',
  areTokens: true,
});
const PROSE = new Markers([CALL, CALL_END]);
const MARKERS = callMarkers(CALL, [], [CALL_END]);

/**
 * Format `<|tool_call:start|>NAME`, a line end, `<|tool_arg:start|>KEY<|tool_arg:value|>VALUE<|tool_arg:end|>` for each
 * argument, and `<|tool_call:end|>`.
 */
export const solarOpen2: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  callTokens: [CALL],
  finder: () => PROSE,
  read: (marker, source, calls, tools) =>
    readMarkedCalls(MARKERS, marker, source, calls, () => readCall(source, calls, tools)),
};

/** Reads a call from after its start to its end; text that is not a call stays in the record. */
function* readCall(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const { text, marker } = yield* collectUntil(source, TAGS.inCall);
  const name = text.trim();
  const isCall = isName(name) && (marker === TAGS.key || marker === CALL_END);
  if (isCall) yield* new PairStream(TAGS, source, calls, tools, convertByType).read({ name, first: marker });
  else if (marker === CALL) source.unread(marker);
}
