import { LIMITS, ServeError } from '../../errors/index.ts';
import {
  BACKSLASH,
  EXACT_DIGITS,
  isDigit,
  isInexact,
  plainLength,
  QUOTE,
  SHORT_STRING_BYTES,
  shortStringEnd,
} from './json-characters.ts';
import { Filling, hasLoneSurrogate, JsonMemory, type ParseJson } from './json-pieces.ts';

const SPACE = 0x20;
const OPEN_OBJECT = 0x7b;
const OPEN_LIST = 0x5b;

/** Sizes of the pieces. */
export interface PieceSizes {
  /** Approximate size of the runs of members that `JSON.parse` reads. */
  readonly runBytes: number;
  /** Size above which a text is read in parts, and of those parts. */
  readonly longStringBytes: number;
  /** Bytes that are scanned and read before the event loop gets a turn. */
  readonly sliceBytes: number;
}

/** Default sizes. A slice takes half a millisecond, or 5 ms before the code is compiled. */
export const SIZES: PieceSizes = { runBytes: 16 * 1024, longStringBytes: 256 * 1024, sliceBytes: 64 * 1024 };
const SEARCH_BYTES = 64 * 1024;
/** Length of white space after a member that is searched for a number; after more, a number is assumed. */
const SPACE_BYTES = 64;

/** Object or list that is open. */
interface Frame {
  readonly opensAt: number;
  readonly isObject: boolean;
  /** Created once the container proves to be large; until then its text is part of its parent's run. */
  filling: Filling | undefined;
  /** Position of the first member that is not in `filling`. */
  runFrom: number;
  /** Position of the opening bracket, or of the last comma. */
  separatorAt: number;
  /** End of the last member that was read by itself; -1 once a comma has come. */
  childEnd: number;
  members: number;
  awaitsKey: boolean;
}

/** Result of reading, with facts that the value does not show. */
export interface ReadJson {
  readonly value: unknown;
  readonly duplicateKey: string | undefined;
  readonly hasLoneSurrogate: boolean;
  /** Whether `JSON.parse` may lose information about a number or a key below the root (`noteSource`). */
  readonly mayLose: boolean;
  /** Reason why the text was not read to its end; `value` is the part before. */
  readonly refusal: ServeError | undefined;
}

/**
 * Reads a JSON text of megabytes in pieces, so that nothing else waits for it. It finds brackets, commas and quotes
 * byte by byte, and `JSON.parse` reads the runs of members in between. Only containers and texts that are large
 * themselves are put together here.
 *
 *     {"model":"m","prompt":[1,2,3, ... 4,5,6, ... 7,8,9],"stream":true}
 *      └── run ──┘ └ key ┘  └─ run ──┘ └─ run ──┘ └ run ┘ └─── run ───┘
 */
export class JsonReader {
  readonly #bytes: Buffer;
  readonly #depthMax: number;
  readonly #memory: JsonMemory;
  readonly #parseText: ParseJson;
  readonly #frames: Frame[] = [];
  readonly #rootKeys = new Set<string>();
  #at = 0;
  readonly #sizes: PieceSizes;
  #sliceEnd: number;
  #rootKey = '';
  #root: unknown;
  #isRootRead = false;
  #duplicateKey: string | undefined;
  #hasLoneSurrogate = false;
  #mayLose = false;

  /**
   * @param depthMax limit of nested objects and lists
   * @param parse reads each piece
   */
  constructor(
    bytes: Buffer,
    depthMax: number,
    sizes: PieceSizes = SIZES,
    memory = new JsonMemory(bytes.length),
    parse: ParseJson = JSON.parse,
  ) {
    this.#sizes = sizes;
    this.#sliceEnd = sizes.sliceBytes;
    this.#bytes = bytes;
    this.#depthMax = depthMax;
    this.#memory = memory;
    this.#parseText = parse;
  }

  /**
   * Reads the text. Yields where other work may run.
   * @throws SyntaxError for text that is not JSON, or is neither an object nor a list
   */
  *read(): Generator<void, ReadJson> {
    let refusal: ServeError | undefined;
    try {
      yield* this.#readAll();
    } catch (error) {
      if (!(error instanceof ServeError)) throw error;
      refusal = error;
      for (const { filling } of this.#frames) filling?.close();
      this.#root = this.#frames[0]?.filling?.target;
    }
    return {
      value: this.#root,
      duplicateKey: this.#duplicateKey,
      hasLoneSurrogate: this.#hasLoneSurrogate,
      mayLose: this.#mayLose,
      refusal,
    };
  }

  *#readAll(): Generator<void, void> {
    const bytes = this.#bytes;
    while (this.#at < bytes.length) {
      if (this.#at >= this.#sliceEnd) yield* this.#giveTurn();
      const byte = bytes[this.#at] as number;
      if (byte === QUOTE) {
        if (!this.#skipShortString()) yield* this.#string();
      } else this.#structure(byte);
      this.#at++;
      if (this.#frames.length > 0) this.#at = skipPlain(bytes, this.#at);
    }
    if (!this.#isRootRead) throw new SyntaxError('Unexpected end of JSON input');
  }

  *#giveTurn(): Generator<void, void> {
    this.#memory.check(this.#rootKey);
    yield;
    this.#sliceEnd = this.#at + this.#sizes.sliceBytes;
  }

  #structure(byte: number): void {
    switch (byte) {
      case OPEN_OBJECT:
      case OPEN_LIST:
        this.#open(byte === OPEN_OBJECT);
        break;
      case 0x7d: // }
      case 0x5d: // ]
        this.#close(byte === 0x7d);
        break;
      case 0x2c: // ,
        this.#comma();
        break;
      case 0x2d: // -
      case 0x2e: // .
      case 0x45: // E
      case 0x65: // or e
        if (this.#frames.length > 1 && isInexact(byte, this.#bytes[this.#at - 1], this.#bytes[this.#at + 1]))
          this.#mayLose = true;
        break;
      case 0x20:
      case 0x09:
      case 0x0a:
      case 0x0d:
        return;
      default:
        break;
    }
    if (this.#frames.length === 0 && !(this.#isRootRead && (byte === 0x7d || byte === 0x5d))) throw this.#unexpected();
  }

  #open(isObject: boolean): void {
    if (this.#isRootRead) throw this.#unexpected();
    if (this.#frames.length === this.#depthMax) throw new SyntaxError(`more than ${this.#depthMax} levels of nesting`);
    const opensAt = this.#at;
    this.#memory.container(this.#rootKey);
    this.#frames.push({
      opensAt,
      isObject,
      filling: undefined,
      runFrom: opensAt + 1,
      separatorAt: opensAt,
      childEnd: -1,
      members: 0,
      awaitsKey: isObject,
    });
  }

  #comma(): void {
    const frame = this.#frames.at(-1);
    if (frame === undefined) return;
    this.#checkNumber(frame);
    frame.members++;
    frame.awaitsKey = frame.isObject;
    if (frame.isObject) this.#memory.member(frame.members);
    else this.#memory.element(frame.members, this.#rootKey);
    if (frame.childEnd >= 0) this.#endChild(frame);
    else if (this.#at - frame.runFrom >= this.#sizes.runBytes) {
      this.#addRun(this.#fillingOf(this.#frames.length - 1), frame.runFrom, this.#at);
      frame.runFrom = this.#at + 1;
    }
    frame.separatorAt = this.#at;
  }

  #close(isObject: boolean): void {
    const frame = this.#frames.at(-1);
    if (frame === undefined || frame.isObject !== isObject) throw this.#unexpected();
    this.#checkNumber(frame);
    const { filling } = frame;
    if (frame.childEnd >= 0) this.#endChild(frame);
    else if (filling !== undefined) this.#addRun(filling, frame.runFrom, this.#at);
    filling?.close();
    this.#frames.pop();
    const parent = this.#frames.at(-1);
    if (parent === undefined) {
      this.#root = filling !== undefined ? filling.target : this.#parse(frame.opensAt, this.#at + 1);
      this.#isRootRead = true;
    } else if (filling !== undefined) parent.childEnd = this.#at + 1;
  }

  /**
   * Checks the number that may end a member at `#at`: with more digits than a number holds, its value differs from its
   * text.
   */
  #checkNumber({ separatorAt }: Frame): void {
    if (this.#mayLose || this.#frames.length < 2 || this.#at - separatorAt <= EXACT_DIGITS) return;
    const spaceFrom = this.#at - SPACE_BYTES;
    let end = this.#at - 1;
    while (end > spaceFrom && (this.#bytes[end] as number) <= SPACE) end--;
    let from = end;
    while (isDigit(this.#bytes[from]) && end - from <= EXACT_DIGITS) from--;
    this.#mayLose = end === spaceFrom || end - from > EXACT_DIGITS;
  }

  /** Ends a member that was read by itself; only white space may follow it. */
  #endChild(frame: Frame): void {
    if (this.#text(frame.childEnd, this.#at).trim() !== '') throw this.#unexpected();
    frame.childEnd = -1;
    frame.runFrom = this.#at + 1;
  }

  /**
   * Skips a short string. Returns false when its end is not near; then `#string` searches for it. A generator for each
   * string would cost more than the string.
   */
  #skipShortString(): boolean {
    const frame = this.#frames.at(-1);
    if (frame === undefined) throw this.#unexpected();
    const opensAt = this.#at;
    const end = shortStringEnd(this.#bytes, opensAt);
    if (end < 0) return false;
    this.#at = end;
    this.#noteString(frame, opensAt);
    return true;
  }

  /** Notes a string that ends at `#at`. @returns true for a key */
  #noteString(frame: Frame, opensAt: number): boolean {
    if (!frame.awaitsKey) {
      this.#memory.string(this.#at - opensAt);
      return false;
    }
    frame.awaitsKey = false;
    if (this.#frames.length > 1 && isDigit(this.#bytes[opensAt + 1])) this.#mayLose = true;
    this.#memory.key(this.#bytes, opensAt, this.#at);
    if (this.#frames.length === 1) this.#noteRootKey(opensAt);
    return true;
  }

  /** Skips a string, or reads it when it is long. */
  *#string(): Generator<void, void> {
    const opensAt = this.#at;
    const frame = this.#frames.at(-1) as Frame; // `#skipShortString` has checked it
    yield* this.#findClosingQuote();
    const isKey = this.#noteString(frame, opensAt);
    if (!isKey && this.#at - opensAt > this.#sizes.longStringBytes) {
      const filling = this.#fillingOf(this.#frames.length - 1);
      const text = yield* this.#longString(opensAt + 1, this.#at);
      this.#addChild(frame, filling, opensAt, text);
      frame.childEnd = this.#at + 1;
    }
  }

  /** Moves `#at` to the closing quote. */
  *#findClosingQuote(): Generator<void, void> {
    const bytes = this.#bytes;
    let nativeFrom = this.#at + SHORT_STRING_BYTES;
    for (this.#at++; this.#at < bytes.length; this.#at++) {
      if (this.#at >= this.#sliceEnd) yield* this.#giveTurn();
      if (this.#at >= nativeFrom) {
        this.#at += plainLength(bytes.subarray(this.#at, this.#at + SEARCH_BYTES));
        nativeFrom = this.#at + SHORT_STRING_BYTES;
      }
      const byte = bytes[this.#at];
      if (byte === QUOTE) return;
      if (byte === BACKSLASH) this.#at++;
    }
    throw new SyntaxError('Unterminated string in JSON');
  }

  #noteRootKey(opensAt: number): void {
    const key = this.#parse(opensAt, this.#at + 1) as string;
    this.#rootKey = key;
    if (this.#rootKeys.has(key)) this.#duplicateKey ??= key;
    this.#rootKeys.add(key);
  }

  /** Returns the container of the frame; creates it and adds it to its parent if necessary. */
  #fillingOf(index: number): Filling {
    const frame = this.#frames[index] as Frame;
    if (frame.filling !== undefined) return frame.filling;
    const filling = new Filling(frame.isObject, this.#parseText);
    frame.filling = filling;
    if (index > 0) {
      const parent = this.#frames[index - 1] as Frame;
      this.#addChild(parent, this.#fillingOf(index - 1), frame.opensAt, filling.target);
    }
    return filling;
  }

  /** Adds the pending members before `childAt`, then the child that begins there. */
  #addChild(frame: Frame, filling: Filling, childAt: number, child: unknown): void {
    const { runFrom, separatorAt } = frame;
    if (frame.childEnd >= 0) throw this.#unexpected(); // no comma between two members
    if (separatorAt >= runFrom) this.#addRun(filling, runFrom, separatorAt);
    const before = this.#text(separatorAt + 1, childAt);
    this.#checkSurrogates(before, filling.addChild(before, child));
  }

  #addRun(filling: Filling, from: number, to: number): void {
    this.#memory.check(this.#rootKey);
    const text = this.#text(from, to);
    const aheadBytes = this.#bytes.length - to;
    const elementsAhead = (added: number): number =>
      Math.min(Math.ceil((added * aheadBytes) / (to - from)), LIMITS.body_elements.max);
    this.#checkSurrogates(text, filling.addMembers(text, elementsAhead));
  }

  /** Reads a text in parts that begin and end between two characters. */
  *#longString(from: number, to: number): Generator<void, string> {
    const parts: string[] = [];
    for (let at = from; at < to; ) {
      const end = partEnd(this.#bytes, at, Math.min(at + this.#sizes.longStringBytes, to), to);
      const text = this.#text(at, end);
      const part = JSON.parse(`"${text}"`) as string;
      this.#checkSurrogates(text, part);
      parts.push(part);
      at = end;
      yield;
    }
    return parts.join('');
  }

  #parse(from: number, to: number): unknown {
    const text = this.#text(from, to);
    const value = this.#parseText(text);
    this.#checkSurrogates(text, value);
    return value;
  }

  #checkSurrogates(text: string, value: unknown): void {
    if (!this.#hasLoneSurrogate && hasLoneSurrogate(text, value)) this.#hasLoneSurrogate = true;
  }

  #text(from: number, to: number): string {
    return this.#bytes.toString('utf8', from, to);
  }

  #unexpected(): SyntaxError {
    return new SyntaxError(`Unexpected token at byte ${this.#at} of the JSON text`);
  }
}

/** 1 for bytes without meaning inside an object or a list, outside strings; most of a list of ids consists of them. */
const PLAIN = new Uint8Array(256);
for (const char of '0123456789+abcdfghijklmnopqrstuvwxyz \t\r\n') PLAIN[char.charCodeAt(0)] = 1;

function skipPlain(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && PLAIN[bytes[at] as number] === 1) at++;
  return at;
}

/**
 * Returns where a part of a long text that begins at `from` may end, at `wanted` or soon after: not inside a character,
 * an escape, or a pair of escapes.
 */
function partEnd(bytes: Buffer, from: number, wanted: number, to: number): number {
  let end = wanted;
  if (bytes.subarray(from, wanted).includes(BACKSLASH)) {
    for (end = from; end < wanted; ) end += bytes[end] === BACKSLASH ? escapeLength(bytes, end) : 1;
  }
  while (end < to && ((bytes[end] as number) & 0xc0) === 0x80) end++;
  return Math.min(end, to);
}

const LETTER_U = 0x75;

function escapeLength(bytes: Buffer, at: number): number {
  if (bytes[at + 1] !== LETTER_U) return 2;
  const isHighHalf = /^[dD][89abAB]/.test(bytes.toString('latin1', at + 2, at + 4));
  const isPair = isHighHalf && bytes[at + 6] === BACKSLASH && bytes[at + 7] === LETTER_U;
  return isPair ? 12 : 6;
}
