import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { collectName, type Parsing, readOneOf, showUntil, skipSpace, type TextSource } from '../scan.ts';
import { type JsonCallShape, readJsonCall } from './json-call.ts';

const MODEL = '<|message_model|>';
const INVOKE = '<|content_invoke_tool_json|>';
const TEXT = '<|content_text|>';
const END = '<|end_message|>';
const PROSE = new Markers([MODEL, INVOKE, TEXT, END]);
const IN_INVOKE = new Markers([END, MODEL, INVOKE]);
const SHAPE: JsonCallShape = { argumentKeys: new Set(['args']), allowsNameAlone: true };

/**
 * Format of typed blocks: a block of type `invoke` holds one call as JSON, whose `args` are passed on as written. The
 * tool's name between the start of a message and such a block is markup.
 */
export const inkling: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  endTokens: [END],
  finder: () => PROSE,
  *read(marker, source, calls): Parsing<Region> {
    let prefix = '';
    if (marker === MODEL) {
      prefix = yield* collectName(source, NAME_UNIT);
      if ((yield* readOneOf(source, [INVOKE])) === undefined) {
        calls.content(prefix);
        return prefix === '' ? 'markup' : 'text';
      }
    } else if (marker !== INVOKE) return 'markup';
    source.record(marker === MODEL ? MODEL + prefix + INVOKE : INVOKE);
    return yield* readInvoke(source, calls, prefix);
  },
};

function* readInvoke(source: TextSource, calls: CallWriter, prefix: string): Parsing<Region> {
  const before = calls.readCount;
  if ((yield* skipSpace(source)) === '{') {
    const onCommit = (name: string): void => calls.content(prefix === name ? '' : prefix);
    yield* readJsonCall(source, calls, { ...SHAPE, onCommit });
  }
  const isCall = calls.readCount > before;
  if (!isCall) calls.content(source.takeRecord());
  const stop = yield* showUntil(source, IN_INVOKE, calls);
  if (stop !== undefined && (stop !== END || !isCall)) source.unread(stop);
  return isCall ? 'markup' : 'text';
}

/** Letters of any script: half a surrogate pair stands for a letter beyond the first plane. */
const NAME_UNIT = /^[\w.\-\p{L}\p{N}\p{M}\p{Cs}]$/u;
