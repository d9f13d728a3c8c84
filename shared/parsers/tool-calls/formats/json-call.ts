import { isRecord } from '../../../records/index.ts';
import type { CallWriter } from '../call-writer.ts';
import { collectJsonValue, isQuote, parseJson, readJsonString, readJsonValue, startsJson } from '../json-scan.ts';
import { type Parsing, peek, skipSpace, type TextSource } from '../scan.ts';

/** Shape of a call as a JSON object. */
export interface JsonCallShape {
  /** Keys of the name. @default `name` */
  readonly nameKeys?: ReadonlySet<string>;
  readonly argumentKeys: ReadonlySet<string>;
  /** Whether an object with only a name is a call with `{}`. */
  readonly allowsNameAlone: boolean;
  /** Called with the name before the call is begun. */
  readonly onCommit?: (name: string) => void;
  /**
   * Decides whether JSON without a marker is a call: this must accept the name, and the arguments must be an object. If
   * the first object is not a call, the JSON is an answer.
   */
  readonly takesBare?: (name: string) => boolean;
}

/**
 * Result of reading. `call`: at least one was read. `none`: JSON, but not a call. `empty`: an empty list. `broken`: not
 * JSON, or cut off: the text after it cannot be interpreted.
 */
export type JsonCallResult = 'call' | 'none' | 'empty' | 'broken';

/**
 * Reads `{"name": ..., "arguments": ...}` at its brace. The arguments go out as the bytes that the model wrote, from
 * the first one on if the name came before them. Of several argument keys the first counts. Only a call is removed from
 * the record of the text read.
 */
export function* readJsonCall(source: TextSource, calls: CallWriter, shape: JsonCallShape): Parsing<JsonCallResult> {
  source.at++; // the brace
  const call: CallSoFar = { name: undefined, early: undefined, isCommitted: false, isRefused: false };
  let next = yield* skipSpace(source);
  while (next !== '}') {
    if (!(yield* readMember(source, calls, shape, call))) return call.isCommitted ? 'call' : 'broken';
    next = yield* skipSpace(source);
    if (next === ',') {
      source.at++;
      next = yield* skipSpace(source);
      if (next === '}') return call.isCommitted ? 'call' : 'broken';
    } else if (next !== '}') return call.isCommitted ? 'call' : 'broken';
  }
  source.at++;
  if (!call.isCommitted && shape.allowsNameAlone && call.name !== undefined && !call.isRefused) {
    shape.onCommit?.(call.name);
    calls.whole(call.name, '{}');
    return 'call';
  }
  return call.isCommitted ? 'call' : 'none';
}

/** Reads an array of such objects at its bracket; elements that are not calls are text. */
export function* readJsonCalls(source: TextSource, calls: CallWriter, shape: JsonCallShape): Parsing<JsonCallResult> {
  source.at++; // the bracket
  let result: JsonCallResult = 'none';
  let elements = shape;
  for (let isFirst = true; ; isFirst = false) {
    const next = yield* skipSpace(source);
    if (next === ']') {
      source.at++;
      return isFirst ? 'empty' : result;
    }
    if (next !== '{') return result === 'call' ? 'call' : 'broken';
    if (!source.isRecording) source.record();
    const element = yield* readJsonCall(source, calls, elements);
    if (element === 'call') result = 'call';
    else if (shape.takesBare !== undefined && result !== 'call') elements = { ...shape, takesBare: () => false };
    else {
      calls.content(source.takeRecord());
      if (result !== 'call') source.record();
      if (element === 'broken') return result === 'call' ? 'call' : 'broken';
    }
    const after = yield* skipSpace(source);
    if (after === ',') source.at++;
    else if (after !== ']') return result === 'call' ? 'call' : 'broken';
  }
}

/**
 * Returns the arguments in a JSON value, which may be an object written as a JSON string; missing arguments are an
 * empty object. Anything else stays as it was written.
 */
export function argumentsOf(raw: string): string {
  const text = raw.trim();
  if (text === '' || text === 'null') return '{}';
  for (let [inside, layer] = [text, 0]; layer < STRING_LAYERS_MAX && inside.startsWith('"'); layer++) {
    const value = parseJson(inside);
    if (typeof value !== 'string') return raw;
    inside = value.trim();
    if (inside === '') return '{}';
    if (isRecord(parseJson(inside))) return inside;
  }
  return raw;
}

/** Limit of nested strings in which arguments may be written. */
const STRING_LAYERS_MAX = 4;

const NAME_KEYS: ReadonlySet<string> = new Set(['name']);

interface CallSoFar {
  name: string | undefined;
  /** Arguments that stand before the name. */
  early: string | undefined;
  isCommitted: boolean;
  isRefused: boolean;
}

/** Reads one `"key": value`. Returns false when it is not JSON or is cut off. */
function* readMember(source: TextSource, calls: CallWriter, shape: JsonCallShape, call: CallSoFar): Parsing<boolean> {
  const key = yield* readJsonString(source);
  if (key === undefined || (yield* skipSpace(source)) !== ':') return false;
  source.at++;
  const first = yield* skipSpace(source);
  if (!startsJson(first)) return false;
  if (call.name === undefined && (shape.nameKeys ?? NAME_KEYS).has(key))
    return yield* readName(source, calls, shape, call);
  if (!shape.argumentKeys.has(key) || call.isCommitted || call.early !== undefined) {
    return (yield* collectJsonValue(source)) !== undefined;
  }
  if (
    call.name === undefined ||
    call.isRefused ||
    !(first === '{' || (first === '[' && shape.takesBare === undefined))
  ) {
    call.early = yield* collectJsonValue(source);
    if (call.early !== undefined && call.name !== undefined) commitEarly(calls, shape, call, call.name);
    return call.early !== undefined;
  }
  shape.onCommit?.(call.name);
  calls.start(call.name);
  call.isCommitted = true;
  return yield* readJsonValue(source, (piece) => calls.arguments(piece));
}

function* readName(source: TextSource, calls: CallWriter, shape: JsonCallShape, call: CallSoFar): Parsing<boolean> {
  if (!isQuote(yield* peek(source))) {
    call.isRefused = true;
    return (yield* collectJsonValue(source)) !== undefined;
  }
  const name = yield* readJsonString(source);
  if (name === undefined) return false;
  call.name = name;
  call.isRefused ||= name === '' || shape.takesBare?.(name) === false;
  commitEarly(calls, shape, call, name);
  return true;
}

/** Commits a call whose arguments are complete. */
function commitEarly(calls: CallWriter, shape: JsonCallShape, call: CallSoFar, name: string): void {
  if (call.early === undefined || call.isRefused) return;
  const text = argumentsOf(call.early);
  if (shape.takesBare !== undefined && !text.trim().startsWith('{')) {
    call.isRefused = true;
    return;
  }
  shape.onCommit?.(name);
  calls.whole(name, text);
  call.isCommitted = true;
}
