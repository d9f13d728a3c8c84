import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

const START = '<|START_ACTION|>';
const END = '<|END_ACTION|>';

/**
 * Format `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": NAME, "parameters": {...}}]<|END_ACTION|>` of Cohere's
 * Command models. They write an answer in a block of its own, whose markers are dropped. The numbers that they give
 * their calls are not ids: the template numbers all calls of a chat anew.
 */
export const cohereCommand: ToolCallFormat = new JsonFamily({
  starts: { [START]: { kind: 'closed', marker: END } },
  shape: {
    nameKeys: new Set(['tool_name', 'name']),
    argumentKeys: new Set(['parameters', 'arguments']),
    allowsNameAlone: true,
  },
  drops: [END, '<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>'],
  callTokens: [START],
  keepsSpecialTokens: true,
});
