import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { ToolCallFormat } from '../format.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';
import { readFunction, xmlDialect } from './xml-functions.ts';

const CALL = '<function name=';
const TAGS = xmlDialect({
  function: CALL,
  functionEnd: '</function>',
  parameter: '<param name=',
  parameterEnd: '</param>',
  framesValues: false,
  holdsCalls: true,
  onlyDeclared: true,
  hasCdata: true,
});
const PROSE = new Markers([CALL]);
const MARKERS = callMarkers(CALL, [], []);

/**
 * Format `<function name="NAME"><param name="KEY">VALUE</param></function>` without a block around calls. Prose may
 * contain such tags, so only calls of declared tools count. A call is shown when it is complete.
 */
export const minicpm5: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  finder: () => PROSE,
  read: (marker, source, calls, tools) =>
    readMarkedCalls(MARKERS, marker, source, calls, () => readFunction(TAGS, source, calls, tools)),
};
