const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Follows the text of a JSON object, piece by piece, and knows when it is over. */
export class JsonEnd {
  #depth = 0;
  #isInText = false;
  #isEscaped = false;
  #hasBegun = false;

  /** An object has begun, and every bracket is closed. */
  get isOver(): boolean {
    return this.#hasBegun && this.#depth <= 0 && !this.#isInText;
  }

  push(text: string): void {
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (this.#isInText) this.#inText(code);
      else if (code === QUOTE) this.#beginText();
      else this.#bracket(code);
    }
  }

  #inText(code: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (code === BACKSLASH) this.#isEscaped = true;
    else if (code === QUOTE) this.#isInText = false;
  }

  #beginText(): void {
    this.#isInText = true;
    this.#hasBegun = true;
  }

  #bracket(code: number): void {
    if (code === 0x7b || code === 0x5b) {
      this.#depth++;
      this.#hasBegun = true;
    } else if (code === 0x7d || code === 0x5d) this.#depth--;
  }
}
