import type { ToolCallFormat } from '../format.ts';
import { JsonFamily, NAME_ALONE, TOOL_CALL, TOOL_CALL_END } from './json-family.ts';

export const hermes: ToolCallFormat = new JsonFamily({
  starts: { [TOOL_CALL]: { kind: 'closed', marker: TOOL_CALL_END } },
  shape: NAME_ALONE,
  drops: [TOOL_CALL_END],
  callTokens: [TOOL_CALL],
});
