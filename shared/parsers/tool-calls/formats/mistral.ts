import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { isQuote, readJsonValue } from '../json-scan.ts';
import { collectName, NAME_UNITS_MAX, type Parsing, readOneOf, skipSpace, type TextSource } from '../scan.ts';
import { argumentsOf } from './json-call.ts';
import { JsonFamily } from './json-family.ts';

const START = '[TOOL_CALLS]';
/** Marker without its bracket, which models may forget. */
const START_OPEN = '[TOOL_CALLS';
const END = '[/TOOL_CALLS]';
const CALL_ID = '[CALL_ID]';
const ARGUMENTS = '[ARGS';

/**
 * Format `[TOOL_CALLS]NAME[ARGS]{...}` for each call. Some models write `[CALL_ID]ID` after the name, or omit `[ARGS]`;
 * older models write `[TOOL_CALLS][{...}, ...]`. The brackets that close the markers may be missing.
 */
export const mistral: ToolCallFormat = new JsonFamily({
  starts: { [START]: { kind: 'value' }, [START_OPEN]: { kind: 'value' } },
  drops: [END],
  readOther: readNamedCall,
  callTokens: [START],
});

/** Collects a string or a word; ends with the text at the latest. */
function* collectWord(source: TextSource): Parsing<string> {
  let word = '';
  yield* readJsonValue(source, (piece) => {
    word += piece;
  });
  return word;
}

/**
 * Characters of names and ids. Letters of any script: half a surrogate pair stands for a letter beyond the first plane.
 */
const NAME_UNIT = /^[\w.:/\-\p{L}\p{N}\p{M}\p{Cs}]$/u;

/** Reads from the name on; returns false when it is not a call. */
function* readNamedCall(source: TextSource, calls: CallWriter): Parsing<boolean> {
  const name = yield* collectName(source, NAME_UNIT);
  if (name === '' || name.length > NAME_UNITS_MAX) return false;
  yield* skipSpace(source);
  let id: string | undefined;
  let tag = yield* readOneOf(source, [CALL_ID, ARGUMENTS]);
  if (tag === CALL_ID) {
    yield* skipSpace(source);
    id = yield* collectName(source, NAME_UNIT);
    if (id.length > NAME_UNITS_MAX) return false;
    yield* skipSpace(source);
    tag = yield* readOneOf(source, [ARGUMENTS]);
  }
  if (tag === ARGUMENTS) yield* readOneOf(source, [']']);
  const first = yield* skipSpace(source);
  if (first === '{') {
    calls.start(name, id || undefined);
    yield* readJsonValue(source, (piece) => calls.arguments(piece));
    return true;
  }
  if (tag !== ARGUMENTS) return false;
  if (first === '[') {
    // The call has no arguments: the next call follows. Its marker is put back, as it belongs to the prose after this
    // call.
    const marker = yield* readOneOf(source, [START_OPEN, END]);
    if (marker === undefined) return false;
    calls.whole(name, '{}', id || undefined);
    source.unread(marker);
    return true;
  }
  const word = isQuote(first) || first === 'n' || first === 'N' ? yield* collectWord(source) : '';
  const text = word === '' ? '' : argumentsOf(word);
  if (!text.startsWith('{')) return false;
  calls.whole(name, text, id || undefined);
  return true;
}
