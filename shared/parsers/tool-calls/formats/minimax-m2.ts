import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { readOneOfBehindSpace } from '../scan.ts';
import { readClosed } from './closed-markup.ts';
import { readBareFunctions, readFunction, xmlDialect } from './xml-functions.ts';

const BLOCK = '<minimax:tool_call>';
const BLOCK_END = '</minimax:tool_call>';
const INVOKE = '<invoke name=';
const TAGS = xmlDialect({
  function: INVOKE,
  functionEnd: '</invoke>',
  parameter: '<parameter name=',
  parameterEnd: '</parameter>',
  blockEnd: BLOCK_END,
  framesValues: false,
  holdsCalls: true,
});
const PROSE = new Markers([BLOCK, BLOCK_END, INVOKE]);
const MARKUP = { start: BLOCK, ends: [BLOCK_END], bodyStarts: [INVOKE] };

/**
 * `<minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></minimax:tool_call>`, shown when it is whole.
 */
export const minimaxM2: ToolCallFormat = {
  newId: prefixedUuid,
  callTokens: [BLOCK],
  finder: () => PROSE,
  *read(marker, source, calls, tools) {
    if (marker === BLOCK_END) return 'markup';
    if (marker === INVOKE) return yield* readBareFunctions(TAGS, source, calls, tools);
    return yield* readClosed(MARKUP, source, calls, function* () {
      while ((yield* readOneOfBehindSpace(source, [INVOKE])) !== undefined) {
        const before = calls.readCount;
        if (!source.isRecording) source.record(INVOKE);
        yield* readFunction(TAGS, source, calls, tools);
        if (calls.readCount > before) continue;
        calls.content(source.takeRecord());
        break;
      }
      return false;
    });
  },
};
