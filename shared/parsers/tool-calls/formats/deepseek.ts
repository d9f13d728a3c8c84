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

interface Call {
  readonly name: string;
  readonly text: string;
}

/** DeepSeek V3: `function`, the separator, the name on a line of its own, and the arguments in a fence. */
export const deepseekV3: ToolCallFormat = {
  ...deepseek(function* (source) {
    if ((yield* readUntil(source, IN_CALL)) !== SEPARATOR) return undefined;
    const { text: name, marker } = yield* collectUntil(source, LINE_END);
    if (marker !== '\n') return undefined;
    const text = yield* collectArguments(source);
    return text === undefined ? undefined : { name: name.trim(), text: stripFence(text) };
  }),
};

/** DeepSeek V3.1: the name, the separator and the arguments. */
export const deepseekV31: ToolCallFormat = {
  ...deepseek(function* (source) {
    const { text: name, marker } = yield* collectUntil(source, IN_CALL);
    if (marker !== SEPARATOR) return undefined;
    const text = yield* collectArguments(source);
    return text === undefined ? undefined : { name: name.trim(), text: stripFence(text) };
  }),
};

/** No call is shown before the outer end marker. */
function deepseek(readCall: (source: TextSource) => Parsing<Call | undefined>): ToolCallFormat {
  return {
    newId: prefixedUuid,
    keepsSpecialTokens: true,
    finder: () => PROSE,
    *read(marker, source, calls) {
      if (marker !== CALLS) return 'markup';
      calls.hold();
      let stop = yield* readUntil(source, IN_CALLS);
      while (stop === CALL) {
        const call = yield* readCall(source);
        if (call !== undefined) showCall(call, calls);
        stop = yield* readUntil(source, IN_CALLS);
      }
      if (stop === CALLS_END) calls.release();
      else calls.drop();
      return 'markup';
    },
  };
}

function showCall(call: Call, calls: CallWriter): void {
  if (call.name === '' || /[{}[\]]/.test(call.name)) return;
  const json = compactJson(call.text) ?? compactJson(joinLines(call.text));
  if (json !== undefined) calls.whole(call.name, json);
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
    const fence = yield* collectUntil(source, FENCE_OPENED);
    text = fence.text + (fence.marker ?? '');
    if (fence.marker === CALL_END) return fence.text;
    yield* skipSpace(source);
  }
  yield* readJsonValue(source, take);
  const rest = yield* collectUntil(source, CALL_CLOSED);
  return rest.marker === undefined ? undefined : text + rest.text;
}

const FENCE_OPENED = new Markers(['\n', CALL_END]);

function stripFence(text: string): string {
  const body = text.trim().replace(FENCE, '');
  return body.endsWith(FENCE_END) ? body.slice(0, -FENCE_END.length).trimEnd() : body;
}
