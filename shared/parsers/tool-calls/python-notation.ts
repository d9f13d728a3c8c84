const APOSTROPHE = "'";
const QUOTE = '"';
/** Escapes that JSON has too. */
const JSON_ESCAPES = '"\\/bfnrtu';
/** Letters that turn `None` into `null`, one by one. */
const NONE: Readonly<Record<string, string>> = { o: 'u', n: 'l', e: 'l' };
const NONE_REST = 'one';

/**
 * Converts Python's notation to JSON as it arrives: strings in single quotes, `True`, `False` and `None`. Everything
 * else stays unchanged. Output is never withdrawn, so words are converted letter by letter. Conversion begins outside
 * strings and words.
 */
export class PythonNotation {
  /** Quote that ends the string; empty outside a string. */
  #quote = '';
  #isEscaped = false;
  #isInWord = false;
  /** Number of letters of `None` seen. */
  #noneUnits = 0;

  toJson(piece: string): string {
    let json = '';
    for (const character of piece) json += this.#quote === '' ? this.#outside(character) : this.#inside(character);
    return json;
  }

  #inside(character: string): string {
    if (this.#isEscaped) {
      this.#isEscaped = false;
      if (JSON_ESCAPES.includes(character)) return `\\${character}`;
      if (character === APOSTROPHE) return character;
      return character === 'x' ? '\\u00' : `\\\\${escaped(character)}`;
    }
    if (character === '\\') {
      this.#isEscaped = true;
      return '';
    }
    if (character === this.#quote) {
      this.#quote = '';
      return QUOTE;
    }
    return this.#quote === APOSTROPHE ? escaped(character) : character;
  }

  #outside(character: string): string {
    const isWordStart = !this.#isInWord;
    this.#isInWord = /\w/.test(character);
    if (this.#noneUnits > 0) return this.#inNone(character);
    if (character === QUOTE || character === APOSTROPHE) {
      this.#quote = character;
      return QUOTE;
    }
    if (!isWordStart) return character;
    if (character === 'N') {
      this.#noneUnits = 1;
      return ''; // it may be `NaN`
    }
    return character === 'T' || character === 'F' ? character.toLowerCase() : character;
  }

  #inNone(character: string): string {
    const isFirst = this.#noneUnits === 1;
    const isNone = character === NONE_REST[this.#noneUnits - 1];
    this.#noneUnits = isNone && this.#noneUnits < NONE_REST.length ? this.#noneUnits + 1 : 0;
    if (!isNone) return (isFirst ? 'N' : '') + this.#outside(character);
    return (isFirst ? 'n' : '') + (NONE[character] as string); // a letter of `NONE_REST`
  }
}

/** Returns the character as it stands in a JSON string. */
function escaped(character: string): string {
  return character === QUOTE || character < ' ' ? JSON.stringify(character).slice(1, -1) : character;
}
