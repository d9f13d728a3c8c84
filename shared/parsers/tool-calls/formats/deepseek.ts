import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { compactJson, escapeLineEnds, readJsonValue } from '../json-scan.ts';
import { collectUntil, type Parsing, readOneOf, skipSpace, type TextSource } from '../scan.ts';
import { argumentsOf } from './json-call.ts';
import { callMarkers, readMarkedCalls } from './token-calls.ts';

const CALLS = '<｜tool▁calls▁begin｜>';
const CALLS_END = '<｜tool▁calls▁end｜>';
const CALL = '<｜tool▁call▁begin｜>';
const CALL_END = '<｜tool▁call▁end｜>';
const SEPARATOR = '<｜tool▁sep｜>';
const SENTENCE_END = '<｜end▁of▁sentence｜>';
const PROSE = new Markers([CALLS, CALLS_END, CALL, CALL_END, SENTENCE_END]);
const CLOSERS = [CALL_END, CALL, CALLS_END];
const IN_CALL = new Markers([SEPARATOR, ...CLOSERS]);
const CALL_CLOSED = new Markers(CLOSERS);
const LINE_END = new Markers(['\n', ...CLOSERS]);
const FENCE = /^```(?:json)?\s*/;
const FENCE_END = '```';
/** Word that V3 writes where V3.1 writes the name. */
const V3_TYPE = 'function';
const MARKERS = callMarkers(CALL, [CALLS], [CALLS_END]);

/**
 * Format of DeepSeek V3 (`function`, the separator, the name on a line of its own, and the arguments in a fence) and
 * V3.1 (the name, the separator and the arguments). Each call is shown when it is complete.
 */
const deepseek: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  callTokens: [CALLS, CALL],
  finder: () => PROSE,
  read: (marker, source, calls) => readMarkedCalls(MARKERS, marker, source, calls, () => readCall(source, calls)),
};

export const deepseekV3: ToolCallFormat = deepseek;
export const deepseekV31: ToolCallFormat = deepseek;

/** Reads a call from after its begin marker to its end; does not read further. */
function* readCall(source: TextSource, calls: CallWriter): Parsing {
  const head = yield* collectUntil(source, IN_CALL);
  let name = head.text.trim();
  let stop = head.marker;
  if (stop === SEPARATOR) {
    stop = undefined;
    if (name === V3_TYPE && !/^[`{]$/.test(yield* skipSpace(source))) {
      const line = yield* collectUntil(source, LINE_END);
      name = line.text.trim();
      stop = line.marker === '\n' ? undefined : line.marker;
    }
    const text = stop === undefined ? yield* collectArguments(source) : '';
    const json = text === undefined ? undefined : readArguments(stripFence(text));
    stop ??= yield* readOneOf(source, CLOSERS);
    if (json !== undefined && name !== '' && !/[{}[\]<>\s]/.test(name)) calls.whole(name, json);
  }
  if (stop !== undefined && stop !== CALL_END) source.unread(stop);
}

/** Returns the arguments as JSON. These models write raw line ends inside strings; they are escaped. */
function readArguments(text: string): string | undefined {
  if (text === '') return '{}';
  return compactJson(argumentsOf(text)) ?? compactJson(escapeLineEnds(text));
}

/**
 * Collects the text up to a marker outside JSON strings, which is not read. Returns undefined when the text ends inside
 * the arguments.
 */
function* collectArguments(source: TextSource): Parsing<string | undefined> {
  let text = '';
  const take = (piece: string): void => {
    text += piece;
  };
  const first = yield* skipSpace(source);
  if (first === '`') {
    const fence = yield* collectUntil(source, LINE_END);
    text = fence.text + (fence.marker ?? '');
    if (fence.marker !== undefined && fence.marker !== '\n') {
      source.unread(fence.marker);
      return fence.text;
    }
    yield* skipSpace(source);
  }
  const isWhole = yield* readJsonValue(source, take);
  const rest = yield* collectUntil(source, CALL_CLOSED);
  if (rest.marker !== undefined) source.unread(rest.marker);
  return rest.marker === undefined && !isWhole ? undefined : text + rest.text;
}

function stripFence(text: string): string {
  const body = text.trim().replace(FENCE, '');
  return body.endsWith(FENCE_END) ? body.slice(0, -FENCE_END.length).trimEnd() : body;
}
