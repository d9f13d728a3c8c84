/** Opening of the arguments of a custom tool's function, up to its one text. Spaces may stand between the pieces. */
const OPENING = ['{', '"input"', ':', '"'] as const;

/**
 * Reads the input of a custom tool out of its function's arguments while the model writes them. From `{"input": "..."}`
 * it gives the text of the string, unescaped. It gives arguments of any other shape as they are, so that no output of
 * the model is lost.
 *
 * | State | opening goes on | opening broken | in string | closing quote | end |
 * |---|---|---|---|---|---|
 * | opening | held | raw, with what was held | string | - | gives what was held |
 * | string | - | - | given, unescaped | done | gives nothing: a cut escape has no text |
 * | raw | - | - | given as it is | given as it is | - |
 * | done | - | - | dropped: braces and spaces | - | - |
 */
export class CustomInputReader {
  #state: 'opening' | 'string' | 'raw' | 'done' = 'opening';
  /** Text that is not given yet: the opening so far, or the start of an escape. */
  #held = '';
  /** Number of pieces of the opening that were read. `#units` counts the characters of the next piece. */
  #pieces = 0;
  #units = 0;

  /** Returns the part of the input that `text` adds. */
  push(text: string): string {
    switch (this.#state) {
      case 'opening':
        return this.#readOpening(text);
      case 'string':
        return this.#readString(text);
      case 'raw':
        return text;
      case 'done':
        return '';
    }
  }

  /** Returns the rest of the input when the arguments have ended. */
  end(): string {
    const held = this.#state === 'opening' ? this.#held : '';
    this.#held = '';
    this.#state = 'done';
    return held;
  }

  #readOpening(text: string): string {
    for (let at = 0; at < text.length; at++) {
      const piece = OPENING[this.#pieces] as string; // the last one ends the state
      const character = text.charAt(at);
      if (character === piece[this.#units]) {
        this.#units = (this.#units + 1) % piece.length;
        if (this.#units === 0 && ++this.#pieces === OPENING.length) {
          this.#held = '';
          this.#state = 'string';
          return this.#readString(text.slice(at + 1));
        }
      } else if (this.#units > 0 || !/\s/.test(character)) {
        const held = this.#held + text;
        this.#held = '';
        this.#state = 'raw';
        return held;
      }
    }
    this.#held += text;
    return '';
  }

  #readString(text: string): string {
    const source = this.#held + text;
    this.#held = '';
    let out = '';
    let at = 0;
    while (at < source.length) {
      const next = nextSpecial(source, at);
      out += source.slice(at, next);
      if (next === source.length) return out;
      if (source[next] === '"') {
        this.#state = 'done';
        return out;
      }
      const length = escapeLength(source, next);
      if (next + length > source.length) {
        this.#held = source.slice(next);
        return out;
      }
      out += readEscapes(source.slice(next, next + length));
      at = next + length;
    }
    return out;
  }
}

/** Returns the position of the next quote or backslash, or of the end. */
function nextSpecial(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22 || code === 0x5c) return at;
  }
  return text.length;
}

/**
 * Returns the length of the escape at `at`; both halves of a surrogate pair count as one. Returns more than the text
 * has if the escape is not complete.
 */
function escapeLength(text: string, at: number): number {
  if (text[at + 1] !== 'u') return 2;
  if (!HIGH_HALF.test(text.slice(at + 2, at + 6))) return 6;
  const next = text.slice(at + 6, at + 8);
  return '\\u'.startsWith(next) ? 12 : 6;
}

const HIGH_HALF = /^d[89ab]/i;

/** Returns escapes as their text. Half a surrogate pair becomes U+FFFD; an escape that JSON lacks stays as it is. */
function readEscapes(escapes: string): string {
  try {
    return Buffer.from(String(JSON.parse(`"${escapes}"`))).toString();
  } catch {
    return escapes; // no output of the model is lost
  }
}

/** Returns the input that whole arguments hold. */
export function customInput(text: string): string {
  const reader = new CustomInputReader();
  return reader.push(text) + reader.end();
}
