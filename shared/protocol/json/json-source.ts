import {
  BACKSLASH,
  EXACT_DIGITS,
  isDigit,
  plainLength,
  QUOTE,
  SHORT_STRING_BYTES,
  shortStringEnd,
} from './json-characters.ts';
import { scanRoot } from './json-scan.ts';

/**
 * Information that `JSON.parse` loses about a text: the order of keys that look like whole numbers, and the spelling of
 * numbers (`0.0`, `1e400`, twenty digits). It is kept beside the values, under a symbol that copies include and other
 * code does not see.
 */

const SOURCE = Symbol('JSON source');

interface JsonSource {
  /** All keys in the order of the text; undefined if the object's own order is the same. */
  readonly keys: readonly string[] | undefined;
  /** Text of each number that JavaScript writes differently, by key or index. */
  readonly numbers: ReadonlyMap<string, string> | undefined;
}

type Sourced = object & { [SOURCE]?: JsonSource };

/** Number with the text that it was read from. */
export class ExactNumber {
  readonly text: string;
  readonly value: number;

  constructor(text: string, value = Number(text)) {
    this.text = text;
    this.value = value;
  }

  toJSON(): number {
    return this.value;
  }
}

/** Returns the keys of an object in the order of its text. */
export function keysInOrder(value: Readonly<Record<string, unknown>>): readonly string[] {
  const keys = Object.keys(value);
  const given = (value as Sourced)[SOURCE]?.keys;
  if (given === undefined) return keys;
  const first = given.filter((key) => Object.hasOwn(value, key));
  const known = new Set(first);
  return [...first, ...keys.filter((key) => !known.has(key))];
}

/** Returns the member or element as it was written; `value` is what the container holds there. */
export function exactMember(container: object, key: string | number, value: unknown): unknown {
  if (typeof value !== 'number') return value;
  const text = (container as Sourced)[SOURCE]?.numbers?.get(String(key));
  return text !== undefined && Object.is(Number(text), value) ? new ExactNumber(text, value) : value;
}

/** Writes JSON as `JSON.stringify`, with keys and numbers as they were read. */
export function writeJson(value: unknown): string {
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) {
    return `[${value.map((item, at) => writeJson(exactMember(value, at, item))).join(',')}]`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const record = value as Readonly<Record<string, unknown>>;
  const members = keysInOrder(record)
    .filter((key) => record[key] !== undefined)
    .map((key) => `${JSON.stringify(key)}:${writeJson(exactMember(record, key, record[key]))}`);
  return `{${members.join(',')}}`;
}

/** Reads a whole JSON text. @throws SyntaxError */
export function readJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (typeof value === 'number') return String(value) === text.trim() ? value : new ExactNumber(text.trim(), value);
  if (scanRoot(text).lossDepth === 0) return value;
  const steps = noteSource(Buffer.from(text), value);
  while (!steps.next().done);
  return value;
}

const INTEGER_KEY = /^(?:0|[1-9]\d{0,9})$/;
/** Bytes that are scanned before the event loop gets a turn. */
const SLICE_BYTES = 64 * 1024;
const OPEN_OBJECT = 0x7b;
const OPEN_LIST = 0x5b;
const CLOSE_OBJECT = 0x7d;
const CLOSE_LIST = 0x5d;
const COMMA = 0x2c;
const MINUS = 0x2d;

interface Frame {
  readonly value: Sourced;
  readonly isObject: boolean;
  readonly keys: string[];
  key: string;
  awaitsKey: boolean;
  index: number;
  hasIntegerKey: boolean;
  numbers: Map<string, string> | undefined;
}

/**
 * Notes in `value`, and in the values inside it, what the text says in addition. Yields where other work may run: no
 * part of the text is scanned as a whole, however long a string in it is.
 * @param text valid JSON
 * @param value result of `JSON.parse` for it
 * @param roots only these members of the value are scanned. @default all
 */
export function* noteSource(text: Buffer, value: unknown, roots?: ReadonlySet<string>): Generator<void, void> {
  const frames: Frame[] = [];
  /** Nesting inside a member that is skipped. */
  let skipped = 0;
  let sliceEnd = SLICE_BYTES;
  for (let at = 0; at < text.length; at++) {
    if (at >= sliceEnd) {
      sliceEnd = at + SLICE_BYTES;
      yield;
    }
    const byte = text[at] as number;
    if (byte === QUOTE) {
      let close = shortStringEnd(text, at);
      if (close < 0) close = yield* longStringEnd(text, at);
      const frame = frames.at(-1);
      if (skipped === 0 && frame?.awaitsKey === true) takeKey(frame, text, at, close);
      at = close;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      const frame = frames.at(-1);
      if (skipped > 0 || (frames.length === 1 && roots?.has((frame as Frame).key) === false)) skipped++;
      else frames.push(openFrame(byte === OPEN_OBJECT, frame === undefined ? value : childOf(frame)));
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      if (skipped > 0) skipped--;
      else closeFrame(frames.pop());
    } else if (skipped === 0) {
      const frame = frames.at(-1);
      if (frame === undefined) continue;
      if (byte === COMMA) nextMember(frame);
      else if (byte === MINUS || isDigit(byte))
        at = takeNumber(text, at, roots === undefined || frames.length > 1 ? frame : undefined);
    }
  }
}

/** Returns where a long string ends that opens at `opensAt`. */
function* longStringEnd(text: Buffer, opensAt: number): Generator<void, number> {
  let sliceEnd = opensAt + SLICE_BYTES;
  let nativeFrom = opensAt + SHORT_STRING_BYTES;
  for (let at = opensAt + 1; at < text.length; at++) {
    if (at >= sliceEnd) {
      sliceEnd = at + SLICE_BYTES;
      yield;
    }
    if (at >= nativeFrom) {
      at += plainLength(text.subarray(at, at + SLICE_BYTES));
      nativeFrom = at + SHORT_STRING_BYTES;
    }
    if (text[at] === QUOTE) return at;
    if (text[at] === BACKSLASH) at++;
  }
  return text.length;
}

function openFrame(isObject: boolean, value: unknown): Frame {
  const isSame = typeof value === 'object' && value !== null && Array.isArray(value) !== isObject;
  // Of two members with one name, the value has only the last; the source of the first is discarded.
  const target = isSame ? (value as Sourced) : isObject ? {} : [];
  return {
    value: target,
    isObject,
    keys: [],
    key: '',
    awaitsKey: isObject,
    index: 0,
    hasIntegerKey: false,
    numbers: undefined,
  };
}

function childOf({ value, isObject, key, index }: Frame): unknown {
  return isObject ? ownMember(value, key) : (value as readonly unknown[])[index];
}

function ownMember(value: object, key: string): unknown {
  return Object.hasOwn(value, key) ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
}

function takeKey(frame: Frame, text: Buffer, open: number, close: number): void {
  const raw = text.toString('utf8', open + 1, close);
  frame.key = raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw;
  frame.awaitsKey = false;
  frame.hasIntegerKey ||= INTEGER_KEY.test(frame.key);
  frame.keys.push(frame.key);
}

function nextMember(frame: Frame): void {
  frame.index++;
  frame.awaitsKey = frame.isObject;
}

/** Bytes of a number after its first: `+-.0123456789Ee`. */
const NUMERAL = new Uint8Array(256);
for (const char of '+-.0123456789Ee') NUMERAL[char.charCodeAt(0)] = 1;

/** Reads a number. @returns position of its last character */
function takeNumber(text: Buffer, at: number, frame: Frame | undefined): number {
  let isPlain = text[at] !== MINUS;
  let end = at + 1;
  for (; NUMERAL[text[end] as number] === 1; end++) isPlain &&= isDigit(text[end]);
  if (frame === undefined || (isPlain && end - at <= EXACT_DIGITS)) return end - 1;
  const number = text.toString('latin1', at, end);
  if (String(Number(number)) !== number) {
    frame.numbers ??= new Map();
    frame.numbers.set(frame.isObject ? frame.key : String(frame.index), number);
  }
  return end - 1;
}

function closeFrame(frame: Frame | undefined): void {
  if (frame === undefined || (!frame.hasIntegerKey && frame.numbers === undefined)) return;
  frame.value[SOURCE] = { keys: frame.hasIntegerKey ? [...new Set(frame.keys)] : undefined, numbers: frame.numbers };
}
