import { isJsonSpace, JsonValueScan } from './json-value-scan.ts';
import { type Parsing, peek, type TextSource } from './scan.ts';

const QUOTE = 34;
const BACKSLASH = 92;

/** Returns whether a character can begin a JSON value, or one in Python's notation. */
export function startsJson(character: string): boolean {
  return /^[{["'\-0-9tfnTFN]/.test(character);
}

/**
 * Reads one JSON value and passes on its text as it arrives; markers inside its strings do not count. The text stays
 * byte for byte, except for Python's notation (`JsonValueScan`). `isCompact` leaves out white space between tokens.
 * Returns false when the text ends inside the value, or when a character outside a string cannot be JSON: that
 * character is not read.
 */
export function* readJsonValue(source: TextSource, take: (piece: string) => void, isCompact = false): Parsing<boolean> {
  const scan = new JsonValueScan();
  const squeeze = isCompact ? createSqueezer() : undefined;
  const advance = (): boolean => {
    const { text, at } = source;
    const json = scan.read(text, at);
    source.at = scan.end;
    const piece = squeeze === undefined ? json : squeeze(json);
    if (piece !== '') take(piece);
    return scan.isWhole || scan.isBroken || source.isEnded;
  };
  if (!advance()) yield advance;
  return scan.isWhole;
}

/** Reads one JSON value and returns its text; undefined when `readJsonValue` returns false. */
export function* collectJsonValue(source: TextSource): Parsing<string | undefined> {
  let value = '';
  const isWhole = yield* readJsonValue(source, (piece) => {
    value += piece;
  });
  return isWhole ? value : undefined;
}

/** Returns whether a character opens a string. */
export function isQuote(character: string): boolean {
  return character === '"' || character === "'";
}

/** Reads a JSON string and returns its value; undefined when there is none. */
export function* readJsonString(source: TextSource): Parsing<string | undefined> {
  if (!isQuote(yield* peek(source))) return undefined;
  const raw = yield* collectJsonValue(source);
  const value = raw === undefined ? undefined : parseJson(raw);
  return typeof value === 'string' ? value : undefined;
}

/**
 * Returns JSON without white space between tokens, its numbers and escapes unchanged; undefined when it is not JSON.
 */
export function compactJson(text: string): string | undefined {
  if (parseJson(text) === undefined) return undefined;
  return createSqueezer()(text);
}

/** Returns the parsed value, or undefined when the text is not JSON (JSON has no `undefined` of its own). */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // models often write text that is not JSON: every caller handles that
  }
}

/** Escapes the line ends and tabs inside strings, which JSON does not allow. */
export function escapeLineEnds(text: string): string {
  let isInString = false;
  return text.replace(/\\[\s\S]|["\n\r\t]/g, (found) => {
    if (found === '"') isInString = !isInString;
    return isInString && found.length === 1 && found !== '"' ? JSON.stringify(found).slice(1, -1) : found;
  });
}

/** Writes an object in JSON from values that are already JSON. */
export function writeJsonObject(members: Iterable<readonly [string, string]>): string {
  return `{${Array.from(members, ([key, json]) => `${JSON.stringify(key)}:${json}`).join(',')}}`;
}

/** Returns a function that removes white space between the tokens of JSON that arrives in pieces. */
function createSqueezer(): (piece: string) => string {
  let isInString = false;
  let isEscaped = false;
  return (piece) => {
    let kept = '';
    let from = 0;
    for (let at = 0; at < piece.length; at++) {
      const code = piece.charCodeAt(at);
      if (isEscaped) isEscaped = false;
      else if (isInString && code === BACKSLASH) isEscaped = true;
      else if (code === QUOTE) isInString = !isInString;
      else if (!isInString && isJsonSpace(code)) {
        kept += piece.slice(from, at);
        from = at + 1;
      }
    }
    return kept + piece.slice(from);
  };
}
