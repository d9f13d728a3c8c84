import type { ToolCallFormat } from '../format.ts';
import { JsonFamily, TOOL_CALL, TOOL_CALL_END } from './json-family.ts';

/**
 * Format of xLAM: a list of calls in JSON, at the beginning of the message or after a marker of the model on which it
 * was trained. JSON in a code block is a call only if the tool is declared.
 */
export const xlam: ToolCallFormat = new JsonFamily({
  starts: {
    [TOOL_CALL]: { kind: 'closed', marker: TOOL_CALL_END },
    '```json': { kind: 'closed', marker: '```', onlyDeclared: true },
    '[TOOL_CALLS]': { kind: 'value' },
  },
  drops: [TOOL_CALL_END],
});
