import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { NAME_ALONE, readToolCallBlock, TOOL_CALL, TOOL_CALL_END } from './json-family.ts';
import { FUNCTION_TAGS, readBareFunctions } from './xml-functions.ts';

const PROSE = new Markers([TOOL_CALL, TOOL_CALL_END, FUNCTION_TAGS.function]);
const BLOCK = { start: TOOL_CALL, end: TOOL_CALL_END, shape: NAME_ALONE };

/**
 * `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`. Lenient: a closing tag may be missing where
 * the next parameter, the end of the function or of the block stands, and the block may hold JSON, as other models of the
 * family write it.
 */
export const qwen3Coder: ToolCallFormat = {
  newId: prefixedUuid,
  callTokens: [TOOL_CALL],
  finder: () => PROSE,
  *read(marker, source, calls, tools) {
    if (marker === TOOL_CALL_END) return 'markup';
    return yield* marker === TOOL_CALL
      ? readToolCallBlock(BLOCK, source, calls, tools)
      : readBareFunctions(FUNCTION_TAGS, source, calls, tools);
  },
};
