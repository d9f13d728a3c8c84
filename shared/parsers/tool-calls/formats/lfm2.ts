import type { ToolCallFormat } from '../format.ts';
import { listOfCalls } from './pythonic.ts';

const START = '<|tool_call_start|>';

/** Format `[name(key=value), ...]` between two tokens. */
export const lfm2: ToolCallFormat = listOfCalls([START, '<|tool_call_end|>'], {
  keepsSpecialTokens: true,
  callTokens: [START],
});
