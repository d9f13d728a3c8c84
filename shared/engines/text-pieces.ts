/**
 * Keeps characters whole. JavaScript stores an emoji as two UTF-16 units, and code that cuts a string by length can
 * yield them in two pieces. Each half alone has no form in UTF-8, so both would reach clients as U+FFFD.
 */
export class TextPieces {
  /** For each choice whose text ends within a character so far, the first half of that character. */
  readonly #halves = new Map<number, string>();

  /** Returns the next text of a choice without a character that the piece only begins. */
  join(choice: number, piece: string): string {
    const text = this.rest(choice) + piece;
    if (!FIRST_HALF.test(text.slice(-1))) return text;
    this.#halves.set(choice, text.slice(-1));
    return text.slice(0, -1);
  }

  /** Returns the half whose other half has not come, or the empty text, and forgets it. */
  rest(choice: number): string {
    const half = this.#halves.get(choice) ?? '';
    this.#halves.delete(choice);
    return half;
  }
}

const FIRST_HALF = /[\ud800-\udbff]/;
