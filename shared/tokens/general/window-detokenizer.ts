import type { DecodeOptions, Detokenizer, Tokenizer } from '../types.ts';

/** Number of ids at the prompt's end that affect how the first new token is written. */
const PROMPT_TAIL_IDS = 5;
/** Most ids that one character takes: it has at most four bytes. */
const CHARACTER_IDS_MAX = 4;
/** Bound of the window while tokens bring no text. */
const SILENT_IDS_MAX = 16;

/**
 * Decodes a short window twice for each token and takes the difference, because these decoders write a token
 * differently depending on the tokens before it. The window begins at the text released last; it grows only inside a
 * character.
 */
export class WindowDetokenizer implements Detokenizer {
  readonly #tokenizer: Tokenizer;
  readonly #options: DecodeOptions;
  #window: number[];
  /** Number of ids of the window whose text was released. */
  #released: number;
  #releasedText: string;
  /** Number of ids in a row after which the text ended in U+FFFD. */
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
    // An unfinished character shows as U+FFFD. If the U+FFFD stays for as many ids as a character can take, it is text.
    this.#unfinishedIds = text.endsWith('\ufffd') ? this.#unfinishedIds + 1 : 0;
    const isHeld = this.#unfinishedIds > 0 && this.#unfinishedIds < CHARACTER_IDS_MAX;
    // A token without text of its own may still affect how the next one is written, so the window stays.
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
