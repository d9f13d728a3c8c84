import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

/** Two tokens, which appear with or without a space between them. */
const INTERNLM_CALLS = ['<|action_start|><|plugin|>', '<|action_start|> <|plugin|>'];

export const internlm: ToolCallFormat = new JsonFamily({
  starts: Object.fromEntries(INTERNLM_CALLS.map((start) => [start, { kind: 'closed', marker: '<|action_end|>' }])),
  callTokens: INTERNLM_CALLS,
  keepsSpecialTokens: true,
});
