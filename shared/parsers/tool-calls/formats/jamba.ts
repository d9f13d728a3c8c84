import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

export const jamba: ToolCallFormat = new JsonFamily({
  starts: { '<tool_calls>': { kind: 'closed', marker: '</tool_calls>' } },
  drops: ['</tool_calls>'],
  callTokens: ['<tool_calls>'],
});
