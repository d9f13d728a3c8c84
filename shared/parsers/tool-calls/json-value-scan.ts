import { PythonNotation } from './python-notation.ts';

const QUOTE = 34;
const APOSTROPHE = 39;
const COMMA = 44;
const COLON = 58;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
/** First letters of Python's truth values and `None`. */
const [T, F, N] = [84, 70, 78];

/**
 * Follows one JSON value character by character, through strings and brackets. Brackets are counted, not matched: a
 * model's text is passed on without being validated. Strings in single quotes, `True`, `False` and `None`, which are
 * not JSON, are converted to it.
 */
export class JsonValueScan {
  isWhole = false;
  isBroken = false;
  /**
   * Position after the text read last: after the value, at the character that cannot belong to it, or at the text's
   * length.
   */
  end = 0;
  #depth = 0;
  /** Code of the quote that closes the open string; 0 outside a string. */
  #quote = 0;
  #isEscaped = false;
  #isScalar = false;
  #isInWord = false;
  /** Converter, set from the first character in Python's notation on. */
  #notation: PythonNotation | undefined;

  /** Reads the next piece of a text that holds only the value, apart from white space before it. */
  push(text: string): void {
    const isAtStart = this.#depth === 0 && this.#quote === 0 && !this.#isScalar;
    this.read(text, isAtStart && !this.isWhole ? text.length - text.trimStart().length : 0);
  }

  /** Reads from a position on, sets `end`, and returns the text read as JSON. */
  read(text: string, from: number): string {
    let at = from;
    let pythonFrom = this.#notation === undefined ? -1 : from;
    while (at < text.length && !this.isWhole && !this.isBroken) {
      if (this.#quote !== 0) at = this.#scanString(text, at);
      else if (this.#take(text.charCodeAt(at))) {
        if (pythonFrom < 0 && this.#notation !== undefined) pythonFrom = at;
        at++;
      }
    }
    this.end = at;
    if (this.#notation === undefined) return text.slice(from, at);
    return text.slice(from, pythonFrom) + this.#notation.toJson(text.slice(pythonFrom, at));
  }

  #scanString(text: string, from: number): number {
    for (let at = from; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (code === BACKSLASH) this.#isEscaped = true;
      else if (code === this.#quote) {
        this.#quote = 0;
        this.isWhole = this.#depth === 0;
        return at + 1;
      }
    }
    return text.length;
  }

  /** Takes a character. Returns false when it is not part of the value. */
  #take(code: number): boolean {
    const isWord = isWordCode(code);
    if (this.#isScalar && !isWord) {
      this.isWhole = true;
      return false;
    }
    const isWordStart = isWord && !this.#isInWord;
    this.#isInWord = isWord;
    if (code === QUOTE) this.#quote = code;
    else if (code === OPEN_BRACKET || code === OPEN_BRACE) this.#depth++;
    else if ((code === CLOSE_BRACKET || code === CLOSE_BRACE) && this.#depth > 0) this.isWhole = --this.#depth === 0;
    else if (isWord) {
      this.#isScalar = this.#depth === 0;
      if (isWordStart && (code === T || code === F || code === N)) this.#notation ??= new PythonNotation();
    } else if (code === APOSTROPHE) {
      this.#quote = code;
      this.#notation ??= new PythonNotation();
    } else this.isBroken = this.#depth === 0 || !(code === COMMA || code === COLON || isJsonSpace(code));
    return !this.isBroken;
  }
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

export function isJsonSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}
