import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { isQuote, readJsonValue } from '../json-scan.ts';
import { collectName, NAME_UNITS_MAX, type Parsing, readOneOf, skipSpace, type TextSource } from '../scan.ts';
import { argumentsOf } from './json-call.ts';
import { JsonFamily } from './json-family.ts';

const START = '[TOOL_CALLS]';
/** Models may forget the bracket. */
const START_OPEN = '[TOOL_CALLS';
const END = '[/TOOL_CALLS]';
const CALL_ID = '[CALL_ID]';
const ARGUMENTS = '[ARGS';

/**
 * `[TOOL_CALLS]NAME[ARGS]{...}` for each call, with `[CALL_ID]ID` behind the name from some models, or without `[ARGS]`; older models
 * write `[TOOL_CALLS][{...}, ...]`. The brackets that close the markers may be missing.
 */
export const mistral: ToolCallFormat = new JsonFamily({
  starts: { [START]: { kind: 'value' }, [START_OPEN]: { kind: 'value' } },
  dropsOrphanEnd: END,
  readOther: readNamedCall,
  callTokens: [START],
});

/** A string, or a word to the end of the text at the latest. */
function* collectWord(source: TextSource): Parsing<string> {
  let word = '';
  yield* readJsonValue(source, (piece) => {
    word += piece;
  });
  return word;
}

/** In names and ids. Letters of any script: half a surrogate pair stands for one beyond the first plane. */
const NAME_UNIT = /^[\w.:/\-\p{L}\p{N}\p{M}\p{Cs}]$/u;

/** Reads from the name on; false when it is no call. */
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
    // No arguments at all: the next call follows. It is only looked at, as it belongs to the prose behind.
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
