import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

const CALL = '<|function_call|>';

/**
 * Format `<|function_call|>{...}` of 3.1. In 3.0, a call is a message of its own:
 * `<|message_sep|>`, an empty line, `function call<|role_sep|>` and the JSON.
 */
export const gigachat3: ToolCallFormat = new JsonFamily({
  starts: { [CALL]: { kind: 'value' }, 'function call<|role_sep|>': { kind: 'value' } },
  drops: ['<|message_sep|>'],
  callTokens: [CALL],
  keepsSpecialTokens: true,
});
