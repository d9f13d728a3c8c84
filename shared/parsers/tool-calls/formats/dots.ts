import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { ToolCallFormat } from '../format.ts';
import { jsonBlock, NAME_ALONE, readToolCallBlock } from './json-family.ts';
import { xmlDialect } from './xml-functions.ts';

const START = '<dots_function_call>';
const END = '</dots_function_call>';
const PROSE = new Markers([START, END]);
const BLOCK = jsonBlock(START, END, NAME_ALONE, {
  functions: xmlDialect({
    function: '<invoke name=',
    functionEnd: '</invoke>',
    parameter: '<parameter name=',
    parameterEnd: '</parameter>',
    blockEnds: [END],
    framesValues: true,
    holdsCalls: false,
  }),
});

/**
 * Format `<dots_function_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>
 * </dots_function_call>`. The block may hold JSON instead. A line end on each side of a value is not part of it.
 */
export const dots: ToolCallFormat = {
  newId: prefixedUuid,
  callTokens: [START],
  finder: () => PROSE,
  *read(marker, source, calls, tools) {
    return marker === END ? 'markup' : yield* readToolCallBlock(BLOCK, source, calls, tools);
  },
};
