const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Follows JSON text piece by piece and tells what of it is inside a string literal, where markers are text. */
export class JsonStrings {
  #isInside = false;
  #isEscaped = false;

  /**
   * Reads `text[from ..)` up to the first `stop` outside a string literal.
   * @returns its position, which is not read, or the length of `text`
   */
  readTo(stop: string, text: string, from: number): number {
    const stopUnit = stop.charCodeAt(0);
    for (let at = from; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (unit === QUOTE) this.#isInside = !this.#isInside;
      else if (!this.#isInside && unit === stopUnit) return at;
      else if (this.#isInside && unit === BACKSLASH) this.#isEscaped = true;
    }
    return text.length;
  }

  /** Forgets everything: new JSON text begins. */
  reset(): void {
    this.#isInside = false;
    this.#isEscaped = false;
  }
}
