/**
 * What `JSON.parse` loses of a text: the order of keys that look like whole numbers, and how numbers are written (`0.0`,
 * `1e400`, twenty digits). It is kept beside the values, under a symbol that copies take along and nobody else sees.
 */

const SOURCE = Symbol('JSON source');

interface JsonSource {
  /** All keys as they came; undefined where the object's own order is theirs. */
  readonly keys: readonly string[] | undefined;
  /** By key or index: the text of each number that JavaScript writes otherwise. */
  readonly numbers: ReadonlyMap<string, string> | undefined;
}

type Sourced = object & { [SOURCE]?: JsonSource };

/** A number with the text that it was read from. */
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

/** Keys of an object in the order of its text. */
export function keysInOrder(value: Readonly<Record<string, unknown>>): readonly string[] {
  const keys = Object.keys(value);
  const given = (value as Sourced)[SOURCE]?.keys;
  if (given === undefined) return keys;
  const first = given.filter((key) => Object.hasOwn(value, key));
  const known = new Set(first);
  return [...first, ...keys.filter((key) => !known.has(key))];
}

/** The member or element as it was written; `value` is what the container holds there. */
export function exactMember(container: object, key: string | number, value: unknown): unknown {
  if (typeof value !== 'number') return value;
  const text = (container as Sourced)[SOURCE]?.numbers?.get(String(key));
  return text !== undefined && Object.is(Number(text), value) ? new ExactNumber(text, value) : value;
}

/** `JSON.stringify` that writes keys and numbers as they were read. */
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

/** Reads a JSON text whole. @throws SyntaxError */
export function readJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!mayLose(text)) return value;
  if (typeof value === 'number') return String(value) === text.trim() ? value : new ExactNumber(text.trim(), value);
  const steps = noteSource(text, value);
  while (!steps.next().done);
  return value;
}

/** A number that is written in more than one way, or a key that is one; text in quotes may look like it. */
const LOSABLE = /"\d+"\s*:|-0|\d[.eE]|\d{16}/;

/** False where `JSON.parse` is certain to lose nothing of the text. */
export function mayLose(text: string): boolean {
  return LOSABLE.test(text);
}

const INTEGER_KEY = /^(?:0|[1-9]\d{0,9})$/;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** Characters that are gone through before others get a turn. */
const SLICE_CHARS = 64 * 1024;

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
 * Notes in `value`, and in what it holds, what the text says besides. Yields where others may have a turn.
 * @param text valid JSON
 * @param value what `JSON.parse` made of it
 * @param roots only these members of the value are looked at. @default all
 */
export function* noteSource(text: string, value: unknown, roots?: ReadonlySet<string>): Generator<void, void> {
  const frames: Frame[] = [];
  let sliceEnd = SLICE_CHARS;
  for (let at = 0; at < text.length; at++) {
    if (at >= sliceEnd) {
      sliceEnd = at + SLICE_CHARS;
      yield;
    }
    const code = text.charCodeAt(at);
    const frame = frames.at(-1);
    if (code === 0x22) {
      const close = closingQuote(text, at);
      if (frame?.awaitsKey === true) takeKey(frame, text.slice(at, close + 1));
      at = close;
    } else if (code === 0x7b || code === 0x5b) {
      const isSkipped = frames.length === 1 && roots !== undefined && !roots.has((frame as Frame).key);
      if (isSkipped) at = skipContainer(text, at);
      else frames.push(openFrame(code === 0x7b, frame === undefined ? value : childOf(frame)));
    } else if (code === 0x7d || code === 0x5d) closeFrame(frames.pop());
    else if (code === 0x2c && frame !== undefined) nextMember(frame);
    else if ((code === 0x2d || (code >= 0x30 && code <= 0x39)) && frame !== undefined) {
      at = takeNumber(text, at, roots === undefined || frames.length > 1 ? frame : undefined);
    }
  }
}

function openFrame(isObject: boolean, value: unknown): Frame {
  const isSame = typeof value === 'object' && value !== null && Array.isArray(value) !== isObject;
  // Of two members of one name only the last is in the value; what stands in the first is noted nowhere.
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

function takeKey(frame: Frame, quoted: string): void {
  frame.key = quoted.includes('\\') ? String(JSON.parse(quoted)) : quoted.slice(1, -1);
  frame.awaitsKey = false;
  frame.hasIntegerKey ||= INTEGER_KEY.test(frame.key);
  frame.keys.push(frame.key);
}

function nextMember(frame: Frame): void {
  frame.index++;
  frame.awaitsKey = frame.isObject;
}

/** @returns where the last digit stands */
function takeNumber(text: string, at: number, frame: Frame | undefined): number {
  NUMBER.lastIndex = at;
  const [number] = NUMBER.exec(text) ?? [''];
  if (frame !== undefined && String(Number(number)) !== number) {
    frame.numbers ??= new Map();
    frame.numbers.set(frame.isObject ? frame.key : String(frame.index), number);
  }
  return at + Math.max(1, number.length) - 1;
}

function closeFrame(frame: Frame | undefined): void {
  if (frame === undefined || (!frame.hasIntegerKey && frame.numbers === undefined)) return;
  frame.value[SOURCE] = { keys: frame.hasIntegerKey ? [...new Set(frame.keys)] : undefined, numbers: frame.numbers };
}

/** @returns where the container that opens at `from` closes */
function skipContainer(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = closingQuote(text, at);
    else if (code === 0x7b || code === 0x5b) depth++;
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) return at;
  }
  return text.length;
}

export function closingQuote(text: string, open: number): number {
  let at = open;
  for (;;) {
    at = text.indexOf('"', at + 1);
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
}
