import { type AddedToken, readAddedTokens } from '../added-tokens.ts';
import { asRecord } from '../json.ts';
import { readPostProcessor, type Surroundings } from '../post-processor.ts';
import type { DecodeOptions, Detokenizer, EncodeOptions, Tokenizer } from '../types.ts';
import type { ScannedTokenizer } from './build-tables.ts';
import { spellBytes, tokenTextToBytes, unspellBytes } from './byte-alphabet.ts';
import { ByteDecoder, ByteDetokenizer } from './decoder.ts';
import { BpeEncoder } from './encoder.ts';
import { readNormalizer } from './normalizer.ts';
import { readPreTokenizer } from './pre-tokenizer.ts';
import { type BpeTables, findToken, TOKEN_PLAIN, TOKEN_PRESENT, TOKEN_SPECIAL } from './tables.ts';
import { utf8Text } from './utf8.ts';

/** A tokenizer on our own tables, or undefined when the file uses what only the general tokenizer covers. */
export function createBpeTokenizer(scanned: ScannedTokenizer): Tokenizer | undefined {
  const rest = asRecord(scanned.rest);
  const model = asRecord(rest?.model);
  if (rest === undefined || model === undefined || scanned.tables === undefined || !isPlainBpe(model)) return undefined;
  const normalizer = readNormalizer(rest.normalizer);
  const preTokenizer = readPreTokenizer(rest.pre_tokenizer);
  const surroundings = readPostProcessor(rest.post_processor);
  if (normalizer === undefined || preTokenizer === undefined || surroundings === undefined) return undefined;
  if (!isByteLevelDecoder(rest.decoder)) return undefined;
  const addedTokens = readAddedTokens(rest.added_tokens);
  const tables = withAddedTokens(scanned.tables, addedTokens);
  const encoder = new BpeEncoder({
    tables,
    addedTokens,
    normalize: normalizer.normalize,
    preTokenizer,
    ignoresMerges: model.ignore_merges === true,
  });
  return new BpeTokenizer(tables, addedTokens, encoder, surroundings);
}

function isPlainBpe(model: Readonly<Record<string, unknown>>): boolean {
  const isUnset = (name: string): boolean => model[name] === undefined || model[name] === null || model[name] === '';
  return (
    (model.type === undefined || model.type === 'BPE') &&
    model.byte_fallback !== true &&
    isUnset('continuing_subword_prefix') &&
    isUnset('end_of_word_suffix') &&
    (isUnset('dropout') || model.dropout === 0)
  );
}

function isByteLevelDecoder(decoder: unknown): boolean {
  const record = asRecord(decoder);
  if (record?.type === 'Sequence' && Array.isArray(record.decoders)) {
    return record.decoders.length === 1 && isByteLevelDecoder(record.decoders[0]);
  }
  return record?.type === 'ByteLevel';
}

/** The tables with room and bytes for the added tokens. */
function withAddedTokens(tables: BpeTables, added: readonly AddedToken[]): BpeTables {
  const size = added.reduce((most, token) => Math.max(most, token.id + 1), tables.flags.length);
  const texts = added.map((token) => tokenTextToBytes(token.content));
  const blob = new Uint8Array(tables.blob.length + texts.reduce((sum, text) => sum + text.length, 0));
  blob.set(tables.blob);
  const grown = {
    ...tables,
    blob,
    starts: new Uint32Array(size),
    lengths: new Uint16Array(size),
    flags: new Uint8Array(size),
  };
  grown.starts.set(tables.starts);
  grown.lengths.set(tables.lengths);
  grown.flags.set(tables.flags);
  let end = tables.blob.length;
  added.forEach((token, index) => {
    const bytes = texts[index]!;
    blob.set(bytes, end);
    grown.starts[token.id] = end;
    grown.lengths[token.id] = bytes.length;
    const isPlain = unspellBytes(token.content) === undefined;
    grown.flags[token.id] = TOKEN_PRESENT | (isPlain ? TOKEN_PLAIN : 0) | (token.special ? TOKEN_SPECIAL : 0);
    end += bytes.length;
  });
  return grown;
}

class BpeTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly #tables: BpeTables;
  readonly #addedIds: ReadonlyMap<string, number>;
  readonly #encoder: BpeEncoder;
  readonly #decoder: ByteDecoder;
  readonly #surroundings: Surroundings;

  constructor(tables: BpeTables, added: readonly AddedToken[], encoder: BpeEncoder, surroundings: Surroundings) {
    this.#tables = tables;
    this.#addedIds = new Map(added.map((token) => [token.content, token.id]));
    this.#encoder = encoder;
    this.#decoder = new ByteDecoder(tables);
    this.#surroundings = surroundings;
    this.vocabSize = tables.flags.reduce((count, flags) => count + (flags & TOKEN_PRESENT), 0);
  }

  encode(text: string, options: EncodeOptions = {}): Uint32Array {
    const { prefix, suffix } = this.#surroundings;
    return options.addSpecialTokens === true
      ? this.#encoder.encode(text, prefix, suffix)
      : this.#encoder.encode(text, [], []);
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    return this.#decoder.decode(ids, options.skipSpecialTokens !== false);
  }

  createDetokenizer(promptTail: ArrayLike<number>, options: DecodeOptions = {}): Detokenizer {
    return new ByteDetokenizer(this.#decoder, promptTail, options.skipSpecialTokens !== false);
  }

  tokenBytes(id: number): Uint8Array {
    if (!this.#has(id)) return new Uint8Array(0);
    const start = this.#tables.starts[id]!;
    return this.#tables.blob.subarray(start, start + this.#tables.lengths[id]!);
  }

  isSpecial(id: number): boolean {
    return ((this.#tables.flags[id] ?? 0) & TOKEN_SPECIAL) !== 0;
  }

  tokenToId(token: string): number | undefined {
    const added = this.#addedIds.get(token);
    if (added !== undefined) return added;
    const bytes = unspellBytes(token);
    if (bytes === undefined) return this.#findPlain(token);
    const id = findToken(this.#tables, bytes, 0, bytes.length);
    return id < 0 ? undefined : id;
  }

  idToToken(id: number): string | undefined {
    if (!this.#has(id)) return undefined;
    const bytes = this.tokenBytes(id);
    const isPlain = (this.#tables.flags[id]! & TOKEN_PLAIN) !== 0;
    return isPlain ? utf8Text(bytes, 0, bytes.length) : spellBytes(bytes);
  }

  #has(id: number): boolean {
    return ((this.#tables.flags[id] ?? 0) & TOKEN_PRESENT) !== 0;
  }

  /** Tokens outside the byte alphabet are few and rarely asked for, so they have no index. */
  #findPlain(token: string): number | undefined {
    const id = this.#tables.flags.findIndex(
      (flags, candidate) => (flags & TOKEN_PLAIN) !== 0 && this.idToToken(candidate) === token,
    );
    return id < 0 ? undefined : id;
  }
}
