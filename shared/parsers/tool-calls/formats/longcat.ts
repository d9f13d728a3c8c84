import type { ToolCallFormat } from '../format.ts';
import { JsonFamily, NAME_ALONE } from './json-family.ts';

export const longcat: ToolCallFormat = new JsonFamily({
  starts: { '<longcat_tool_call>': { kind: 'closed', marker: '</longcat_tool_call>' } },
  shape: NAME_ALONE,
  drops: ['</longcat_tool_call>'],
  callTokens: ['<longcat_tool_call>'],
});
