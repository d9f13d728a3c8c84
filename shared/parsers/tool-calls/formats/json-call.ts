import type { CallWriter } from '../call-writer.ts';
import { collectJsonValue, readJsonString, readJsonValue, startsJson } from '../json-scan.ts';
import { type Parsing, peek, skipSpace, type TextSource } from '../scan.ts';

/** How a call looks as a JSON object. */
export interface JsonCallShape {
  readonly argumentKeys: ReadonlySet<string>;
  /** An object with a name alone is a call with `{}`. */
  readonly allowsNameAlone: boolean;
  /** Told the name before the call is begun. */
  readonly onCommit?: (name: string) => void;
}

/** `call`: at least one was read. `none`: JSON, but no call. `broken`: not JSON, or cut: what follows cannot be told. */
export type JsonCallResult = 'call' | 'none' | 'broken';

/**
 * Reads `{"name": ..., "arguments": ...}` at its brace. The arguments go out as the bytes that the model wrote, from the
 * first one on if the name came before them. Of several argument keys the first counts.
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
      if (next === '}') return 'broken';
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

/** Reads an array of such objects at its bracket; elements that are no calls are passed over. */
export function* readJsonCalls(source: TextSource, calls: CallWriter, shape: JsonCallShape): Parsing<JsonCallResult> {
  source.at++; // the bracket
  let result: JsonCallResult = 'none';
  for (;;) {
    const next = yield* skipSpace(source);
    if (next === ']') {
      source.at++;
      return result;
    }
    if (next !== '{') return result === 'call' ? 'call' : 'broken';
    const element = yield* readJsonCall(source, calls, shape);
    if (element === 'call') result = 'call';
    const after = yield* skipSpace(source);
    if (after === ',') source.at++;
    else if (after !== ']') return result === 'call' ? 'call' : 'broken';
  }
}

interface CallSoFar {
  name: string | undefined;
  /** Arguments that stand before the name. */
  early: string | undefined;
  isCommitted: boolean;
  isRefused: boolean;
}

/** One `"key": value`; false when it is not JSON or is cut. */
function* readMember(source: TextSource, calls: CallWriter, shape: JsonCallShape, call: CallSoFar): Parsing<boolean> {
  const key = yield* readJsonString(source);
  if (key === undefined || (yield* skipSpace(source)) !== ':') return false;
  source.at++;
  const first = yield* skipSpace(source);
  if (!startsJson(first)) return false;
  if (key === 'name' && call.name === undefined) return yield* readName(source, calls, shape, call);
  if (!shape.argumentKeys.has(key) || call.isCommitted || call.early !== undefined) {
    return (yield* collectJsonValue(source)) !== undefined;
  }
  if (call.name === undefined || call.isRefused) {
    call.early = yield* collectJsonValue(source);
    return call.early !== undefined;
  }
  shape.onCommit?.(call.name);
  calls.start(call.name);
  call.isCommitted = true;
  return yield* readJsonValue(source, (piece) => calls.arguments(piece));
}

function* readName(source: TextSource, calls: CallWriter, shape: JsonCallShape, call: CallSoFar): Parsing<boolean> {
  if ((yield* peek(source)) !== '"') {
    call.isRefused = true;
    return (yield* collectJsonValue(source)) !== undefined;
  }
  const name = yield* readJsonString(source);
  if (name === undefined) return false;
  call.name = name;
  call.isRefused ||= name === '';
  if (call.early !== undefined && !call.isRefused) {
    shape.onCommit?.(name);
    calls.whole(name, call.early);
    call.isCommitted = true;
  }
  return true;
}
