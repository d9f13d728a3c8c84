import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { ToolCallFormat } from '../format.ts';
import { collectJsonValue, readJsonString, readJsonValue, startsJson } from '../json-scan.ts';
import { type Parsing, passOver, skipSpace, type TextSource } from '../scan.ts';
import { closedMarkup, readClosed } from './closed-markup.ts';
import { argumentsOf } from './json-call.ts';

const START = '<|tools_prefix|>';
const END = '<|tools_suffix|>';
const PROSE = new Markers([START, END]);
const MARKUP = closedMarkup({ start: START, ends: [END], bodyStarts: ['{'] });

/**
 * Format `<|tools_prefix|>[{"NAME": {...}}, ...]<|tools_suffix|>`: the key of each object is the name of a tool, and
 * its value the arguments, which are passed on as written.
 */
export const apertus: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  callTokens: [START],
  finder: () => PROSE,
  *read(marker, source, calls) {
    return marker === END ? 'markup' : yield* readClosed(MARKUP, source, calls, () => readObjects(source, calls));
  },
};

/** Reads the objects that stand here, with the brackets and commas around them. Returns true for an empty list. */
function* readObjects(source: TextSource, calls: CallWriter): Parsing<boolean> {
  const isList = (yield* skipSpace(source)) === '[';
  if (isList) source.at++;
  const before = calls.readCount;
  for (;;) {
    const next = yield* skipSpace(source);
    if (next !== '{') {
      if (next === ']') source.at++;
      const isEmpty = isList && next === ']' && calls.readCount === before;
      if (isEmpty) source.forget();
      return isEmpty;
    }
    if (!source.isRecording) source.record();
    yield* readObject(source, calls);
    if (source.isRecording) return false; // it was not a call, and is shown
    yield* passOver(source, ',');
  }
}

/** Reads an object at its brace: each member is a call. Text that is not a call stays in the record. */
function* readObject(source: TextSource, calls: CallWriter): Parsing {
  source.at++; // the brace
  for (;;) {
    const name = yield* readJsonString(source);
    if (name === undefined || name === '' || (yield* skipSpace(source)) !== ':') return;
    source.at++;
    const first = yield* skipSpace(source);
    if (first === '{') {
      calls.start(name);
      if (!(yield* readJsonValue(source, (piece) => calls.arguments(piece)))) return;
    } else if (!startsJson(first) || !(yield* readOther(name, source, calls))) return;
    const after = yield* skipSpace(source);
    if (after === ',' || after === '}') source.at++;
    if (after !== ',') return;
    if (!source.isRecording) source.record();
    yield* skipSpace(source);
  }
}

/** Reads a value that is not written as an object. Returns false if it cannot be the arguments of a call. */
function* readOther(name: string, source: TextSource, calls: CallWriter): Parsing<boolean> {
  const json = yield* collectJsonValue(source);
  const args = json === undefined ? '' : argumentsOf(json);
  if (!args.startsWith('{')) return false;
  calls.whole(name, args);
  return true;
}
