import { type Parsing, peek, type TextSource } from './scan.ts';

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** The character can begin a JSON value. */
export function startsJson(character: string): boolean {
  return /^[{["\-0-9tfn]/.test(character);
}

/**
 * Follows one JSON value character by character, through strings and brackets. Brackets are counted, not matched: what a
 * model writes is passed on, not judged.
 */
class JsonValueScan {
  isWhole = false;
  isBroken = false;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isScalar = false;

  /** Position behind the value, or of the character that cannot belong to it, or the text's length: then it goes on. */
  scan(text: string, from: number): number {
    let at = from;
    while (at < text.length && !this.isWhole && !this.isBroken) {
      if (this.#isInString) at = this.#scanString(text, at);
      else if (this.#take(text.charCodeAt(at))) at++;
    }
    return at;
  }

  #scanString(text: string, from: number): number {
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (code === BACKSLASH) this.#isEscaped = true;
      else if (code === QUOTE) {
        this.#isInString = false;
        this.isWhole = this.#depth === 0;
        return at + 1;
      }
    }
    return text.length;
  }

  /** False when the character is not part of the value. */
  #take(code: number): boolean {
    const isWord = isWordCode(code);
    if (this.#isScalar && !isWord) this.isWhole = true;
    else if (code === QUOTE) this.#isInString = true;
    else if (code === OPEN_BRACKET || code === OPEN_BRACE) this.#depth++;
    else if ((code === CLOSE_BRACKET || code === CLOSE_BRACE) && this.#depth > 0) this.isWhole = --this.#depth === 0;
    else if (isWord) this.#isScalar = this.#depth === 0;
    else this.isBroken = this.#depth === 0 || !(code === COMMA || code === COLON || isJsonSpace(code));
    return !this.isBroken && !(this.#isScalar && !isWord);
  }
}

/**
 * Reads one JSON value and hands on its text as it comes, with no regard to what markers its strings hold. `isCompact`
 * leaves out white space between tokens. False when the text ends inside the value, or when a character outside a string
 * cannot be JSON: that character is not read.
 */
export function* readJsonValue(source: TextSource, take: (piece: string) => void, isCompact = false): Parsing<boolean> {
  const scan = new JsonValueScan();
  const squeeze = isCompact ? createSqueezer() : undefined;
  const advance = (): boolean => {
    const { text, at } = source;
    const end = scan.scan(text, at);
    const piece = squeeze === undefined ? text.slice(at, end) : squeeze(text.slice(at, end));
    source.at = end;
    if (piece !== '') take(piece);
    return scan.isWhole || scan.isBroken || source.isEnded;
  };
  if (!advance()) yield advance;
  return scan.isWhole;
}

/** Reads one JSON value and returns its text; `undefined` as `readJsonValue` is false. */
export function* collectJsonValue(source: TextSource): Parsing<string | undefined> {
  let value = '';
  const isWhole = yield* readJsonValue(source, (piece) => {
    value += piece;
  });
  return isWhole ? value : undefined;
}

/** Reads a JSON string and returns what it says; `undefined` when there is none. */
export function* readJsonString(source: TextSource): Parsing<string | undefined> {
  if ((yield* peek(source)) !== '"') return undefined;
  const raw = yield* collectJsonValue(source);
  const value = raw === undefined ? undefined : parseJson(raw);
  return typeof value === 'string' ? value : undefined;
}

/** The same JSON without white space between tokens, numbers and escapes untouched; `undefined` when it is not JSON. */
export function compactJson(text: string): string | undefined {
  if (parseJson(text) === undefined) return undefined;
  return createSqueezer()(text);
}

/** The value, or `undefined` when the text is not JSON (JSON has no `undefined` of its own). */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // what a model writes is often not JSON: every caller has a rule for that
  }
}

/** The text with what JSON does not allow inside strings, line ends and tabs, escaped there. */
export function escapeLineEnds(text: string): string {
  let isInString = false;
  return text.replace(/\\[\s\S]|["\n\r\t]/g, (found) => {
    if (found === '"') isInString = !isInString;
    return isInString && found.length === 1 && found !== '"' ? JSON.stringify(found).slice(1, -1) : found;
  });
}

/** An object in JSON from values that are JSON already. */
export function writeJsonObject(members: Iterable<readonly [string, string]>): string {
  return `{${Array.from(members, ([key, json]) => `${JSON.stringify(key)}:${json}`).join(',')}}`;
}

/** Leaves out white space between the tokens of JSON that comes in pieces. */
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

function isWordCode(code: number): boolean {
  return (
    (code >= 48 && code <= 57) ||
    (code >= 97 && code <= 122) ||
    (code >= 65 && code <= 90) ||
    code === 43 || // +
    code === 45 || // -
    code === 46 // .
  );
}

function isJsonSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}
