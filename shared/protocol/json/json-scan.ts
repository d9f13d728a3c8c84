import { BACKSLASH, EXACT_DIGITS, isDigit, isInexact, QUOTE } from './json-characters.ts';

/** Facts that the text of a JSON object shows and its parsed value hides. */
interface RootScan {
  /** First root key that occurs twice. */
  readonly duplicateKey: string | undefined;
  /** Most objects and lists around a value. */
  readonly depth: number;
  /**
   * Most objects and lists around a number or a key about which `JSON.parse` may lose information (`noteSource`); 0 if
   * there is certainly none.
   */
  readonly lossDepth: number;
}

/** String that is a whole number, and a key. */
const INTEGER_KEY = /"\d+"\s*:/y;

/**
 * Scans valid JSON once. Jumps over strings with `indexOf`, so that long messages cost nothing per character. The
 * result is undefined for text that `JSON.parse` refuses.
 */
export function scanRoot(text: string): RootScan {
  const keys = new Set<string>();
  let duplicateKey: string | undefined;
  let depth = 0;
  let depthMax = 0;
  let lossDepth = 0;
  let awaitsKey = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    switch (code) {
      case 0x22: {
        const open = at;
        const close = closingQuote(text, open);
        if (awaitsKey && depth === 1) {
          const key = readKey(text, open, close);
          if (keys.has(key)) duplicateKey ??= key;
          keys.add(key);
          awaitsKey = false;
        }
        if (isIntegerKey(text, open)) lossDepth = Math.max(lossDepth, depth);
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
      case 0x2d: // -
      case 0x2e: // .
      case 0x45: // E
      case 0x65: // or e
        if (isInexact(code, text.charCodeAt(at - 1), text.charCodeAt(at + 1))) lossDepth = Math.max(lossDepth, depth);
        break;
      default: {
        if (!isDigit(code)) break;
        const from = at;
        while (isDigit(text.charCodeAt(at + 1))) at++;
        if (at - from >= EXACT_DIGITS) lossDepth = Math.max(lossDepth, depth);
        break;
      }
    }
  }
  return { duplicateKey, depth: depthMax, lossDepth };
}

function isIntegerKey(text: string, open: number): boolean {
  if (!isDigit(text.charCodeAt(open + 1))) return false;
  INTEGER_KEY.lastIndex = open;
  return INTEGER_KEY.test(text);
}

function closingQuote(text: string, open: number): number {
  let at = open;
  for (;;) {
    at = text.indexOf('"', at + 1);
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
}

function readKey(text: string, open: number, close: number): string {
  const raw = text.slice(open + 1, close);
  return raw.includes('\\') ? String(JSON.parse(text.slice(open, close + 1))) : raw;
}

/** Bytes that are scanned before the event loop gets a turn. */
const SLICE_BYTES = 512 * 1024;
/** Limit of repairs: a text that needs more is not one whose author only forgot to escape. */
const REPAIRS_MAX = 100_000;
/** Control bytes below this are not allowed in strings. */
const SPACE = 0x20;
/** Bytes of `\u00XX`, which replaces one byte. */
const ESCAPE_BYTES = 6;

/**
 * Returns a copy of a JSON text in which raw control bytes inside strings are escaped; undefined when there are none,
 * or too many. Takes one pass, in steps.
 */
export function* repairJson(text: Buffer): Generator<void, Buffer | undefined> {
  const controls = yield* findControls(text);
  return controls === undefined || controls.length === 0 ? undefined : escapeAt(text, controls);
}

/** Finds the control bytes inside strings; undefined when there are too many. */
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
