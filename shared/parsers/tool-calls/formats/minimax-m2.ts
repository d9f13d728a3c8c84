import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { ToolCallFormat } from '../format.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';
import { readFunction, xmlDialect } from './xml-functions.ts';

const BLOCK = '<minimax:tool_call>';
const BLOCK_END = '</minimax:tool_call>';
const INVOKE = '<invoke name=';
const TAGS = xmlDialect({
  function: INVOKE,
  functionEnd: '</invoke>',
  parameter: '<parameter name=',
  parameterEnd: '</parameter>',
  blockEnds: [BLOCK_END],
  framesValues: false,
  holdsCalls: true,
});
const PROSE = new Markers([BLOCK, BLOCK_END, INVOKE]);
const MARKERS = callMarkers(INVOKE, [BLOCK], [BLOCK_END]);

/**
 * Format `<minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></minimax:tool_call>`;
 * a call is shown when it is complete.
 */
export const minimaxM2: ToolCallFormat = {
  newId: prefixedUuid,
  callTokens: [BLOCK],
  finder: () => PROSE,
  read: (marker, source, calls, tools) =>
    readMarkedCalls(MARKERS, marker, source, calls, () => readFunction(TAGS, source, calls, tools)),
};
