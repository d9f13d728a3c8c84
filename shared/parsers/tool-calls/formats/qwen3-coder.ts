import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { jsonBlock, NAME_ALONE, readToolCallBlock, TOOL_CALL, TOOL_CALL_END } from './json-family.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';
import { FUNCTION_TAGS, readFunction } from './xml-functions.ts';

const PROSE = new Markers([TOOL_CALL, TOOL_CALL_END, FUNCTION_TAGS.function]);
const BLOCK = jsonBlock(TOOL_CALL, TOOL_CALL_END, NAME_ALONE);
/** Of functions that no block is around. */
const BARE = callMarkers(FUNCTION_TAGS.function, [], [TOOL_CALL_END]);

/**
 * `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`. Lenient: a closing tag may be missing where
 * the next parameter, the end of the function or of the block stands, and the block may hold JSON, as other models of the
 * family write it.
 */
export const qwen3Coder: ToolCallFormat = {
  newId: prefixedUuid,
  callTokens: [TOOL_CALL],
  finder: () => PROSE,
  read: (marker, source, calls, tools) =>
    marker === TOOL_CALL
      ? readToolCallBlock(BLOCK, source, calls, tools)
      : readMarkedCalls(BARE, marker, source, calls, () => readFunction(FUNCTION_TAGS, source, calls, tools)),
};
