import type { Tokenizer as Library } from '@huggingface/tokenizers';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { readAddedTokens } from '../added-tokens.ts';
import { toWellFormed } from '../bpe/byte-text.ts';
import { boundPatterns, hasUnknownPattern } from '../patterns/bound-library.ts';
import { beginSteps, TextTooLongError } from '../patterns/steps.ts';
import { checkVocabulary } from '../tokenizer-shape.ts';
import type { EncodeText } from '../types.ts';
import { UnigramModel } from './unigram.ts';

/**
 * Returns the encoder of a tokenizer of any kind (Unigram, WordPiece, byte fallback, ...). This is the only place that
 * loads the general library. Creating an encoder with many tokens takes a second, so threads do it.
 * @throws when the library does not support a part of the file either
 */
export async function createGeneralEncode(json: unknown): Promise<EncodeText> {
  const file = asRecord(json) ?? {};
  const library = isUnigram(asRecord(file.model)) ? await openUnigram(file) : await openLibrary(file);
  return (text, options = {}) => {
    beginSteps(text.length);
    try {
      const { ids } = library.encode(toWellFormed(text), { add_special_tokens: options.addSpecialTokens === true });
      return Uint32Array.from(ids);
    } catch (error) {
      if (error instanceof RangeError) throw new TextTooLongError(); // a stack overflow, or an array that is too long
      throw error;
    }
  };
}

async function openLibrary(file: UnknownRecord): Promise<Library> {
  const { Tokenizer } = await import('@huggingface/tokenizers');
  // The library normalizes the added tokens while it is created, before its patterns can be replaced.
  if (hasUnknownPattern(file.normalizer)) {
    const trial = boundPatterns(new Tokenizer({ ...file, added_tokens: [] }, {}));
    for (const { content } of readAddedTokens(file.added_tokens)) trial.tryNormalizing(content);
  }
  // The config is empty because clean-up of spaces and the like is not part of tokenizer.json, and servers do not do
  // it.
  const library = new Tokenizer(file, {});
  boundPatterns(library);
  return library;
}

/** Whether the model is a Unigram model. A list of tokens and scores is one, even if the file does not say so. */
function isUnigram(model: UnknownRecord | undefined): boolean {
  return model?.type === 'Unigram' || (model?.type === undefined && Array.isArray(model?.vocab));
}

/** Members of the library's model that its encoder uses; the library's types leave them out. */
interface LibraryModel {
  (words: readonly string[]): readonly string[];
  tokens_to_ids: Map<string, number>;
  unk_token_id: number | undefined;
}

/**
 * Opens the library with our own Unigram model. The library's model makes an object for each letter of each token, and
 * puts all tokens of a text on the stack.
 */
async function openUnigram(file: UnknownRecord): Promise<Library> {
  checkVocabulary(file);
  const { vocab, unk_id: unknown } = asRecord(file.model) as { vocab: [string, number][]; unk_id?: number | null };
  const library = await openLibrary({ ...file, model: { type: 'Unigram', vocab: [['', 0]], unk_id: 0 } });
  const ids = new Map(vocab.map(([token], id) => [token, id]));
  for (const { content, id } of readAddedTokens(file.added_tokens)) ids.set(content, id);
  const unknownId = unknown ?? undefined;
  const model = new UnigramModel({ entries: vocab, unknownId });
  const unknownToken = unknownId === undefined ? '' : vocab[unknownId]![0];
  const tokensOf = (words: readonly string[]): string[] => {
    const tokens: string[] = [];
    let isUnknown = false;
    for (const word of words) {
      for (const id of model.encode(word)) {
        if (id >= 0 || !isUnknown) tokens.push(id < 0 ? unknownToken : vocab[id]![0]);
        isUnknown = id < 0;
      }
    }
    return tokens;
  };
  const own: LibraryModel = Object.assign(tokensOf, { tokens_to_ids: ids, unk_token_id: unknownId });
  Reflect.set(library, 'model', own);
  return library;
}
