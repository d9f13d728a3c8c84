import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { ToolCallFormat } from '../format.ts';
import { jsonBlock, NAME_ALONE, readToolCallBlock, TOOL_CALL, TOOL_CALL_END } from './json-family.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';
import { FUNCTION_TAGS, readFunction, xmlDialect } from './xml-functions.ts';

/**
 * Creates the format `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`. Lenient: a
 * closing tag may be missing before the next parameter or the end of the function or of the block. The block may hold
 * JSON, as other models of the family write it.
 */
function xmlCalls(start: string, end: string): ToolCallFormat {
  const functions = xmlDialect({ ...FUNCTION_TAGS, blockEnds: [end] });
  const prose = new Markers([start, end, functions.function]);
  const block = jsonBlock(start, end, NAME_ALONE, { functions });
  /** Markers of functions without a block around them. */
  const bare = callMarkers(functions.function, [], [end]);
  return {
    newId: prefixedUuid,
    callTokens: [start],
    finder: () => prose,
    read: (marker, source, calls, tools) =>
      marker === start
        ? readToolCallBlock(block, source, calls, tools)
        : readMarkedCalls(bare, marker, source, calls, () => readFunction(functions, source, calls, tools)),
  };
}

export const qwen3Coder: ToolCallFormat = xmlCalls(TOOL_CALL, TOOL_CALL_END);
/** The same format with other markers. */
export const seedOss: ToolCallFormat = xmlCalls('<seed:tool_call>', '</seed:tool_call>');
