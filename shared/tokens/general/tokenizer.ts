import { unspellBytes } from '../bpe/byte-text.ts';
import { beginSteps } from '../patterns/steps.ts';
import type { DecodeOptions, Detokenizer, EncodeText, Tokenizer, TokenizerRecipe } from '../types.ts';
import { createDecoder } from './decoder.ts';
import { createGeneralEncode } from './library.ts';
import { type GeneralTables, tabulateGeneral, Vocabulary } from './vocabulary.ts';
import { WindowDetokenizer } from './window-detokenizer.ts';

/** A byte-fallback token, e.g. `<0x0A>`. */
const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

/**
 * Creates a tokenizer of any other kind (Unigram, WordPiece, byte fallback, ...) that encodes in this thread, for
 * processes without encoder threads.
 * @param path of the file, which an encoder thread reads anew
 * @throws when a part of the file is not supported
 */
export async function createGeneralTokenizer(json: unknown, path?: string): Promise<Tokenizer> {
  const encode = await createGeneralEncode(json);
  return new GeneralTokenizer(tabulateGeneral(json), path, encode);
}

/** Creates such a tokenizer that encodes only in threads. `tables` come from the thread that has checked the file. */
export function createThreadedTokenizer(tables: GeneralTables, path: string): Tokenizer {
  return new GeneralTokenizer(tables, path, undefined);
}

class GeneralTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly recipe: TokenizerRecipe | undefined;
  readonly path: string | undefined;
  readonly encode: EncodeText;
  readonly encodesInThreads: boolean;
  readonly #vocabulary: Vocabulary;
  readonly #decode: (tokens: readonly string[]) => string;
  readonly #wordEnd: string | undefined;
  readonly #spelling: 'bytes' | 'metaspace' | 'plain';

  constructor({ tokens, size, decoder, wordEnd }: GeneralTables, path: string | undefined, encode?: EncodeText) {
    this.path = path;
    this.recipe = path === undefined ? undefined : { kind: 'general', path };
    this.vocabSize = size;
    this.encode = encode ?? refuseToEncode;
    this.encodesInThreads = encode === undefined;
    this.#vocabulary = new Vocabulary(tokens);
    this.#decode = createDecoder(decoder, (token) => this.#vocabulary.isAdded(token));
    this.#wordEnd = decoder === null ? undefined : wordEnd;
    this.#spelling = spellingOf(JSON.stringify(decoder));
  }

  decode(ids: ArrayLike<number>, { skipSpecialTokens = true }: DecodeOptions = {}): string {
    const tokens: string[] = [];
    for (let at = 0; at < ids.length; at++) {
      const id = ids[at]!;
      if (skipSpecialTokens && this.#vocabulary.isSpecial(id)) continue;
      const token = this.#vocabulary.text(id);
      if (token !== undefined) tokens.push(token);
    }
    if (tokens.length === 0) return '';
    beginSteps(tokens.length);
    const text = this.#decode(tokens);
    if (this.#wordEnd === undefined) return text;
    const spaced = text.replaceAll(this.#wordEnd, ' ');
    return skipSpecialTokens ? spaced.trim() : spaced;
  }

  createDetokenizer(promptTail: ArrayLike<number>, options: DecodeOptions = {}): Detokenizer {
    return new WindowDetokenizer(this, promptTail, options);
  }

  tokenBytes(id: number): Uint8Array {
    const token = this.#vocabulary.text(id);
    if (token === undefined) return new Uint8Array(0);
    const byte = BYTE_TOKEN.exec(token);
    if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1]!, 16));
    if (this.isSpecial(id) || this.#spelling === 'plain') return Buffer.from(token);
    if (this.#spelling === 'metaspace') return Buffer.from(token.replaceAll('\u2581', ' '));
    return unspellBytes(token) ?? Buffer.from(token);
  }

  isSpecial(id: number): boolean {
    return this.#vocabulary.isSpecial(id);
  }

  tokenToId(token: string): number | undefined {
    return this.#vocabulary.idOf(token);
  }

  idToToken(id: number): string | undefined {
    return this.#vocabulary.text(id);
  }
}

function refuseToEncode(): never {
  throw new TypeError('this tokenizer encodes in threads: ask a PromptEncoder');
}

function spellingOf(decoder: string): 'bytes' | 'metaspace' | 'plain' {
  if (decoder.includes('"ByteLevel"')) return 'bytes';
  return decoder.includes('\u2581') || decoder.includes('"Metaspace"') ? 'metaspace' : 'plain';
}
