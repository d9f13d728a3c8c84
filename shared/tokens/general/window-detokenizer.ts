import type { DecodeOptions, Detokenizer, Tokenizer } from '../types.ts';

/** Ids of the prompt's end that decide how the first new token is written. */
const PROMPT_TAIL_IDS = 5;
/** A character of four bytes takes at most as many ids. */
const CHARACTER_IDS_MAX = 4;
/** Bound of the window while tokens bring no text. */
const SILENT_IDS_MAX = 16;

/**
 * Decodes a short window twice per token and takes the difference, because these decoders write a token differently
 * depending on what is before it. The window begins where text was last released; it grows only inside a character.
 */
export class WindowDetokenizer implements Detokenizer {
  readonly #tokenizer: Tokenizer;
  readonly #options: DecodeOptions;
  #window: number[];
  /** Ids of the window whose text was released. */
  #released: number;
  #releasedText: string;
  /** Ids in a row after which the text ended in U+FFFD. */
  #unfinishedIds = 0;

  constructor(tokenizer: Tokenizer, promptTail: ArrayLike<number>, options: DecodeOptions) {
    this.#tokenizer = tokenizer;
    this.#options = options;
    this.#window = Array.from(promptTail).slice(-PROMPT_TAIL_IDS);
    this.#released = this.#window.length;
    this.#releasedText = tokenizer.decode(this.#window, options);
  }

  push(id: number): string {
    if (this.#options.skipSpecialTokens !== false && this.#tokenizer.isSpecial(id)) return '';
    this.#window.push(id);
    const text = this.#tokenizer.decode(this.#window, this.#options);
    // An unfinished character shows as U+FFFD; where it stays for as long as a character can take, it is the text itself.
    this.#unfinishedIds = text.endsWith('\ufffd') ? this.#unfinishedIds + 1 : 0;
    const isHeld = this.#unfinishedIds > 0 && this.#unfinishedIds < CHARACTER_IDS_MAX;
    // A token without text of its own may still decide how the next one is written, so the window stays.
    const isSilent = text.length <= this.#releasedText.length && this.#window.length - this.#released < SILENT_IDS_MAX;
    return isSilent || isHeld ? '' : this.#release(text);
  }

  flush(): string {
    if (this.#window.length === this.#released) return '';
    const text = this.#release(this.#tokenizer.decode(this.#window, this.#options));
    let end = text.length;
    while (text.endsWith('\ufffd\ufffd', end)) end--;
    return text.slice(0, end);
  }

  #release(text: string): string {
    const fresh = text.slice(this.#releasedText.length);
    this.#unfinishedIds = 0;
    this.#window = this.#window.slice(this.#released);
    this.#released = this.#window.length;
    this.#releasedText = this.#tokenizer.decode(this.#window, this.#options);
    return fresh;
  }
}
