import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

/** Format `functools[...]`, and calls between tokens of the model's own. */
export const phi4: ToolCallFormat = new JsonFamily({
  starts: { functools: { kind: 'value' }, '<|tool_call|>': { kind: 'closed', marker: '<|/tool_call|>' } },
  callTokens: ['<|tool_call|>'],
});
