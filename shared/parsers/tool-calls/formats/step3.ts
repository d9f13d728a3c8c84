import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import type { ToolSchemas } from '../parameter-schema.ts';
import { collectUntil, type Parsing, readOneOfBehindSpace, type TextSource } from '../scan.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';
import { readFunction, xmlDialect } from './xml-functions.ts';

const BLOCK = '<｜tool_calls_begin｜>';
const BLOCK_END = '<｜tool_calls_end｜>';
const CALL = '<｜tool_call_begin｜>';
const CALL_END = '<｜tool_call_end｜>';
const INVOKE = '<steptml:invoke name=';
/** Markers after the call's begin marker; between the two stand `function` and a separator. */
const IN_HEAD = new Markers([INVOKE, CALL_END, CALL, BLOCK_END]);
const HEAD = /^\s*(?:function\s*)?(?:<｜tool_sep｜>)?\s*$/;
const TAGS = xmlDialect({
  function: INVOKE,
  functionEnd: '</steptml:invoke>',
  parameter: '<steptml:parameter name=',
  parameterEnd: '</steptml:parameter>',
  blockEnds: [CALL_END],
  framesValues: false,
  holdsCalls: true,
});
const PROSE = new Markers([BLOCK, BLOCK_END, CALL, CALL_END]);
const MARKERS = callMarkers(CALL, [BLOCK], [BLOCK_END]);

/**
 * Format `<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="NAME"><steptml:parameter
 * name="KEY">VALUE</steptml:parameter>` and the closing tags, in a block. A call is shown when it is complete.
 */
export const step3: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  callTokens: [BLOCK, CALL],
  finder: () => PROSE,
  read: (marker, source, calls, tools) =>
    readMarkedCalls(MARKERS, marker, source, calls, () => readCall(source, calls, tools)),
};

/** Reads from after the call's begin marker; text that is not a call stays in the record. */
function* readCall(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing {
  const { text, marker } = yield* collectUntil(source, IN_HEAD);
  if (marker === INVOKE && HEAD.test(text)) {
    yield* readFunction(TAGS, source, calls, tools);
    yield* readOneOfBehindSpace(source, [CALL_END]);
  } else if (marker !== undefined && marker !== CALL_END) source.unread(marker);
}
