import type { ToolCallFormat } from '../format.ts';
import { JsonFamily } from './json-family.ts';

export const nemotronDeci: ToolCallFormat = new JsonFamily({
  starts: { '<TOOLCALL>': { kind: 'closed', marker: '</TOOLCALL>' } },
});
