import type { ToolCallFormat } from '../format.ts';
import { JsonFamily, TOOL_CALL, TOOL_CALL_END } from './json-family.ts';

/** Format `<|tool_call|>[...]` of 3.0, whose marker is a token, and `<tool_call>[...]` of 3.1. */
export const granite: ToolCallFormat = new JsonFamily({
  starts: { '<|tool_call|>': { kind: 'value' }, [TOOL_CALL]: { kind: 'value' } },
  drops: [TOOL_CALL_END],
  callTokens: ['<|tool_call|>'],
  keepsSpecialTokens: true,
});
