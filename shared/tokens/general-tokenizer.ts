import type { Tokenizer as LibraryTokenizer } from '@huggingface/tokenizers';
import { asRecord } from '../records/index.ts';
import { type AddedToken, readAddedTokens } from './added-tokens.ts';
import { toWellFormed, unspellBytes } from './bpe/byte-text.ts';
import { boundPatterns, hasUnknownPattern } from './patterns/bound-library.ts';
import { beginSteps } from './patterns/steps.ts';
import type { DecodeOptions, Detokenizer, EncodeOptions, Tokenizer, TokenizerRecipe } from './types.ts';

/** Ids of the prompt's end that decide how the first new token is written. */
const PROMPT_TAIL_IDS = 5;
/** A character of four bytes takes at most as many ids. */
const CHARACTER_IDS_MAX = 4;
/** Bound of the window while tokens bring no text. */
const SILENT_IDS_MAX = 16;
/** A token of byte fallback, e.g. `<0x0A>`. */
const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

/**
 * A tokenizer of any other kind (Unigram, WordPiece, byte fallback, ...) on the general library, which is loaded here and
 * only here.
 * @param path of the file, which a thread that encodes reads anew
 * @throws when the library does not know a part of the file either
 */
export async function createGeneralTokenizer(json: unknown, path?: string): Promise<Tokenizer> {
  const { Tokenizer: Library } = await import('@huggingface/tokenizers');
  const file = asRecord(json) ?? {};
  // An empty config: clean-up of spaces and the like is not part of tokenizer.json and servers do not do it.
  const added = readAddedTokens(file.added_tokens);
  // The library normalizes the added tokens while it is made, before its patterns can be replaced.
  if (hasUnknownPattern(file.normalizer)) {
    const trial = boundPatterns(new Library({ ...file, added_tokens: [] }, {}));
    for (const { content } of added) trial.tryNormalizing(content);
  }
  const library = new Library(file, {});
  boundPatterns(library);
  return new GeneralTokenizer(library, added, file, path);
}

class GeneralTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly recipe: TokenizerRecipe | undefined;
  readonly path: string | undefined;
  readonly #library: LibraryTokenizer;
  readonly #specialIds: ReadonlySet<number>;
  readonly #spelling: 'bytes' | 'metaspace' | 'plain';

  constructor(
    library: LibraryTokenizer,
    added: readonly AddedToken[],
    file: Readonly<Record<string, unknown>>,
    path: string | undefined,
  ) {
    this.#library = library;
    this.path = path;
    this.recipe = path === undefined ? undefined : { kind: 'general', path };
    this.vocabSize = library.get_vocab(true).size;
    this.#specialIds = new Set(added.filter((token) => token.special).map((token) => token.id));
    this.#spelling = spellingOf(JSON.stringify(file.decoder ?? null));
  }

  encode(text: string, options: EncodeOptions = {}): Uint32Array {
    beginSteps(text.length);
    const { ids } = this.#library.encode(toWellFormed(text), { add_special_tokens: options.addSpecialTokens === true });
    return Uint32Array.from(ids);
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    const known = Array.from(ids).filter((id) => this.#library.id_to_token(id) !== undefined);
    if (known.length === 0) return ''; // the library refuses an empty list
    beginSteps(known.length);
    return this.#library.decode(known, {
      skip_special_tokens: options.skipSpecialTokens !== false,
      clean_up_tokenization_spaces: false,
    });
  }

  createDetokenizer(promptTail: ArrayLike<number>, options: DecodeOptions = {}): Detokenizer {
    return new WindowDetokenizer(this, promptTail, options);
  }

  tokenBytes(id: number): Uint8Array {
    const token = this.#library.id_to_token(id);
    if (token === undefined) return new Uint8Array(0);
    const byte = BYTE_TOKEN.exec(token);
    if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1]!, 16));
    if (this.#specialIds.has(id) || this.#spelling === 'plain') return Buffer.from(token);
    if (this.#spelling === 'metaspace') return Buffer.from(token.replaceAll('\u2581', ' '));
    return unspellBytes(token) ?? Buffer.from(token);
  }

  isSpecial(id: number): boolean {
    return this.#specialIds.has(id);
  }

  tokenToId(token: string): number | undefined {
    return this.#library.token_to_id(token);
  }

  idToToken(id: number): string | undefined {
    return this.#library.id_to_token(id);
  }
}

function spellingOf(decoder: string): 'bytes' | 'metaspace' | 'plain' {
  if (decoder.includes('"ByteLevel"')) return 'bytes';
  return decoder.includes('\u2581') || decoder.includes('"Metaspace"') ? 'metaspace' : 'plain';
}

/**
 * Decodes a short window twice per token and takes the difference, because these decoders write a token differently
 * depending on what is before it. The window begins where text was last released; it grows only inside a character.
 */
class WindowDetokenizer implements Detokenizer {
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
