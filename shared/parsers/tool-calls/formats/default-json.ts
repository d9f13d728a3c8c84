import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

/** Format for a forced tool choice without a configured parser. */
export const defaultJson: ToolCallFormat = new JsonFamily({
  starts: { '<TOOLCALL>': { kind: 'closed', marker: '</TOOLCALL>' }, '<|python_tag|>': { kind: 'list' } },
  callTokens: ['<|python_tag|>'],
});
