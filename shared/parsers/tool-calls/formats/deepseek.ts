import { Markers } from '../../markers.ts';
import { type CallWriter, prefixedUuid } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { compactJson, readJsonValue } from '../json-scan.ts';
import { collectUntil, type Parsing, readUntil, skipSpace, type TextSource } from '../scan.ts';

const CALLS = '<｜tool▁calls▁begin｜>';
const CALLS_END = '<｜tool▁calls▁end｜>';
const CALL = '<｜tool▁call▁begin｜>';
const CALL_END = '<｜tool▁call▁end｜>';
const SEPARATOR = '<｜tool▁sep｜>';
const SENTENCE_END = '<｜end▁of▁sentence｜>';
const PROSE = new Markers([CALLS, CALLS_END, SENTENCE_END]);
const IN_CALLS = new Markers([CALL, CALLS_END]);
const IN_CALL = new Markers([SEPARATOR, CALL_END, CALLS_END]);
const CALL_CLOSED = new Markers([CALL_END]);
const LINE_END = new Markers(['\n', CALL_END]);
const FENCE = /^```(?:json)?\s*/;
const FENCE_END = '```';

/** DeepSeek V3: `function`, the separator, the name on a line of its own, and the arguments in a fence. */
export const deepseekV3: ToolCallFormat = deepseek(function* (source) {
  if ((yield* readUntil(source, IN_CALL)) !== SEPARATOR) return undefined;
  const { text: name, marker } = yield* collectUntil(source, LINE_END);
  return marker === '\n' ? name : undefined;
});

/** DeepSeek V3.1: the name, the separator and the arguments. */
export const deepseekV31: ToolCallFormat = deepseek(function* (source) {
  const { text: name, marker } = yield* collectUntil(source, IN_CALL);
  return marker === SEPARATOR ? name : undefined;
});

/** No call is shown before the outer end marker. @param readName reads up to the arguments */
function deepseek(readName: (source: TextSource) => Parsing<string | undefined>): ToolCallFormat {
  return {
    newId: prefixedUuid,
    keepsSpecialTokens: true,
    finder: () => PROSE,
    *read(marker, source, calls) {
      if (marker !== CALLS) return 'markup';
      calls.hold();
      let stop = yield* readUntil(source, IN_CALLS);
      while (stop === CALL) {
        const name = yield* readName(source);
        const text = name === undefined ? undefined : yield* collectArguments(source);
        if (name !== undefined && text !== undefined) showCall(name.trim(), stripFence(text), calls);
        stop = yield* readUntil(source, IN_CALLS);
      }
      if (stop === CALLS_END) calls.release();
      else calls.drop();
      return 'markup';
    },
  };
}

function showCall(name: string, text: string, calls: CallWriter): void {
  if (name === '' || /[{}[\]]/.test(name)) return;
  const json = compactJson(text) ?? compactJson(joinLines(text));
  if (json !== undefined) calls.whole(name, json);
}

/** Repairs raw line ends inside strings, which these models write. */
function joinLines(text: string): string {
  return text
    .split('\n')
    .map((line) => line.trimStart())
    .join(' ');
}

/** The text up to the call's end marker, wherever that stands outside of a JSON string. */
function* collectArguments(source: TextSource): Parsing<string | undefined> {
  let text = '';
  const take = (piece: string): void => {
    text += piece;
  };
  const first = yield* skipSpace(source);
  if (first === '`') {
    const fence = yield* collectUntil(source, LINE_END);
    text = fence.text + (fence.marker ?? '');
    if (fence.marker === CALL_END) return fence.text;
    yield* skipSpace(source);
  }
  yield* readJsonValue(source, take);
  const rest = yield* collectUntil(source, CALL_CLOSED);
  return rest.marker === undefined ? undefined : text + rest.text;
}

function stripFence(text: string): string {
  const body = text.trim().replace(FENCE, '');
  return body.endsWith(FENCE_END) ? body.slice(0, -FENCE_END.length).trimEnd() : body;
}
