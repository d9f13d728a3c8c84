import { Markers } from '../../markers.ts';
import { type CallWriter, prefixedUuid } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { type Parsing, peek, readOneOf, readUntil, skipSpace, type TextSource } from '../scan.ts';
import { type JsonCallShape, readJsonCall } from './json-call.ts';

const MODEL = '<|message_model|>';
const INVOKE = '<|content_invoke_tool_json|>';
const TEXT = '<|content_text|>';
const END = '<|end_message|>';
const PROSE = new Markers([MODEL, INVOKE, TEXT, END]);
const IN_INVOKE = new Markers([END, MODEL]);
const SHAPE: JsonCallShape = { argumentKeys: new Set(['args']), allowsNameAlone: true };

/**
 * Typed blocks: a block of type `invoke` holds one call as JSON, its `args` passed on as
 * written. The name of the tool that stands between a message's begin and such a block is part of the markup.
 */
export const inkling: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  endTokens: [END],
  finder: () => PROSE,
  *read(marker, source, calls): Parsing<Region> {
    let prefix = '';
    if (marker === MODEL) {
      prefix = yield* collectWord(source);
      if ((yield* readOneOf(source, [INVOKE])) === undefined) {
        calls.content(prefix);
        return prefix === '' ? 'markup' : 'text';
      }
    } else if (marker !== INVOKE) return 'markup';
    yield* readInvoke(source, calls, prefix);
    return 'markup';
  },
};

function* readInvoke(source: TextSource, calls: CallWriter, prefix: string): Parsing {
  if ((yield* skipSpace(source)) === '{') {
    const onCommit = (name: string): void => calls.content(prefix === name ? '' : prefix);
    yield* readJsonCall(source, calls, { ...SHAPE, onCommit });
  }
  yield* readUntil(source, IN_INVOKE);
}

/** Letters, digits and the like that stand here. */
function* collectWord(source: TextSource): Parsing<string> {
  let word = '';
  for (;;) {
    const next = yield* peek(source);
    if (!/^[\w.-]$/.test(next)) return word;
    word += next;
    source.at++;
  }
}
