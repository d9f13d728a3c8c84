import { closingQuote } from './json-source.ts';

/** What the text of a JSON object shows and its parsed value hides. */
interface RootScan {
  /** First root key that stands there twice. */
  readonly duplicateKey: string | undefined;
  /** Most objects and lists around a value. */
  readonly depth: number;
}

/**
 * Walks valid JSON once, jumping over strings with `indexOf`, so that long messages cost nothing per character.
 * Undefined behaviour for text that `JSON.parse` refuses.
 */
export function scanRoot(text: string): RootScan {
  const keys = new Set<string>();
  let duplicateKey: string | undefined;
  let depth = 0;
  let depthMax = 0;
  let awaitsKey = false;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: {
        const close = closingQuote(text, at);
        if (awaitsKey && depth === 1) {
          const key = readKey(text, at, close);
          if (keys.has(key)) duplicateKey ??= key;
          keys.add(key);
          awaitsKey = false;
        }
        at = close;
        break;
      }
      case 0x7b: // {
        awaitsKey = ++depth === 1;
        depthMax = Math.max(depthMax, depth);
        break;
      case 0x5b: // [
        depthMax = Math.max(depthMax, ++depth);
        break;
      case 0x7d: // }
      case 0x5d: // ]
        depth--;
        break;
      case 0x2c: // ,
        if (depth === 1) awaitsKey = true;
        break;
      default:
        break;
    }
  }
  return { duplicateKey, depth: depthMax };
}

function readKey(text: string, open: number, close: number): string {
  const raw = text.slice(open + 1, close);
  return raw.includes('\\') ? String(JSON.parse(text.slice(open, close + 1))) : raw;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Bytes that are gone through before others get a turn. */
const SLICE_BYTES = 512 * 1024;
/** A text with more to repair is no text that somebody forgot to escape. */
const REPAIRS_MAX = 100_000;
/** Control bytes before this are not allowed in strings. */
const SPACE = 0x20;
/** `\u00XX` in place of one byte. */
const ESCAPE_BYTES = 6;

/**
 * A copy of a JSON text in which raw control bytes inside strings are escaped; undefined when there are none, or too many. Takes
 * one pass, in steps.
 */
export function* repairJson(text: Buffer): Generator<void, Buffer | undefined> {
  const controls = yield* findControls(text);
  return controls === undefined || controls.length === 0 ? undefined : escapeAt(text, controls);
}

/** Where control bytes stand inside of strings; undefined when there are too many. */
function* findControls(text: Buffer): Generator<void, readonly number[] | undefined> {
  const controls: number[] = [];
  let isInString = false;
  let sliceEnd = SLICE_BYTES;
  for (let at = 0; at < text.length; at++) {
    if (at >= sliceEnd) {
      sliceEnd = at + SLICE_BYTES;
      yield;
    }
    const byte = text[at] as number;
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString && byte === BACKSLASH)
      at++; // the next character belongs to the escape
    else if (isInString && byte < SPACE && controls.push(at) > REPAIRS_MAX) return undefined;
  }
  return controls;
}

function escapeAt(text: Buffer, controls: readonly number[]): Buffer {
  const escaped = Buffer.allocUnsafeSlow(text.length + controls.length * (ESCAPE_BYTES - 1));
  let from = 0;
  let to = 0;
  for (const at of controls) {
    to += text.copy(escaped, to, from, at);
    to += escaped.write(`\\u${(text[at] as number).toString(16).padStart(4, '0')}`, to, 'latin1');
    from = at + 1;
  }
  text.copy(escaped, to, from);
  return escaped;
}
