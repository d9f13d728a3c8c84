/**
 * A reader of markup: runs until the text at hand is used up, yields, and is resumed once there is more or the text has
 * ended. Reading character by character in this way is what makes a result independent of how the text was cut.
 */
export type Parsing<T = void> = Generator<undefined, T, undefined>;

/** The text not read yet, as one string with a position; and, while recording, what was read since the mark. */
export class TextSource {
  text = '';
  at = 0;
  /** No more text will come. */
  isEnded = false;
  #recorded: string | undefined;
  #recordedTo = 0;

  get isEmpty(): boolean {
    return this.at >= this.text.length;
  }

  feed(chunk: string): void {
    if (this.#recorded !== undefined) this.#recorded += this.text.slice(this.#recordedTo, this.at);
    this.#recordedTo = 0;
    this.text = this.at >= this.text.length ? chunk : this.text.slice(this.at) + chunk;
    this.at = 0;
  }

  /** Puts back text that was read last. Not while recording. */
  unread(text: string): void {
    if (this.at >= text.length) {
      this.at -= text.length; // it is still there
      return;
    }
    this.text = text + this.text.slice(this.at);
    this.at = 0;
  }

  /** Keeps all that is read from here on, `before` in front of it, in case it turns out to be plain text. */
  record(before = ''): void {
    this.#recorded = before;
    this.#recordedTo = this.at;
  }

  /** Ends the recording and returns it; empty when none was running. */
  takeRecord(): string {
    if (this.#recorded === undefined) return '';
    const text = this.#recorded + this.text.slice(this.#recordedTo, this.at);
    this.#recorded = undefined;
    return text;
  }
}
