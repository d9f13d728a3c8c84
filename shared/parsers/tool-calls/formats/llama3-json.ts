import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

export const llama3Json: ToolCallFormat = new JsonFamily({
  starts: { '<|python_tag|>': { kind: 'list' } },
  callTokens: ['<|python_tag|>'],
});
