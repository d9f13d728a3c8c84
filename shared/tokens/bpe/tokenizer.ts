import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { type AddedToken, packAddedTokens, readAddedTokens, unpackAddedTokens } from '../added-tokens.ts';
import type { DecodeOptions, Detokenizer, EncodeText, Tokenizer, TokenizerRecipe } from '../types.ts';
import type { ScannedTokenizer } from './build-tables.ts';
import { spellBytes, tokenTextToBytes, unspellBytes, utf8Text } from './byte-text.ts';
import { ByteDecoder, ByteDetokenizer } from './decoder.ts';
import { BpeEncoder, type EncoderSettings } from './encoder.ts';
import { readNormalizer, readPostProcessor, readPreTokenizer, type Surroundings } from './encoding-rules.ts';
import { type BpeTables, findToken, shared, TOKEN_PLAIN, TOKEN_PRESENT, TOKEN_SPECIAL } from './tables.ts';
import { cutterFor, fewestTokensFor } from './text-bounds.ts';

/**
 * Creates a tokenizer on the product's own tables. Returns undefined when the file uses a feature that only the general
 * tokenizer covers.
 */
export function createBpeTokenizer(scanned: ScannedTokenizer, path?: string): Tokenizer | undefined {
  const rest = asRecord(scanned.rest);
  const model = asRecord(rest?.model);
  if (rest === undefined || model === undefined || scanned.tables === undefined || !isPlainBpe(model)) return undefined;
  const packed = scanned.addedTokens;
  const addedTokens = packed === undefined ? readAddedTokens(rest.added_tokens) : unpackAddedTokens(packed);
  const rules = readRules(rest, addedTokens);
  if (rules === undefined || !isByteLevelDecoder(rest.decoder)) return undefined;
  const tables = packed === undefined ? withAddedTokens(scanned.tables, addedTokens) : scanned.tables;
  const recipe = { kind: 'byte-level', rest, tables, addedTokens: packed ?? packAddedTokens(addedTokens) } as const;
  return new BpeTokenizer(tables, rules, recipe, path);
}

/** Creates the encoding half of `createBpeTokenizer` in an encoder's thread, from the recipe of the tokenizer. */
export function createBpeEncode({ rest, tables, addedTokens }: ByteLevelRecipe): EncodeText {
  const record = asRecord(rest) ?? {};
  const rules = readRules(record, unpackAddedTokens(addedTokens));
  if (rules === undefined) throw new TypeError('unknown recipe of a tokenizer');
  return encodeTextOf(new BpeEncoder({ ...rules, tables }), rules.surroundings);
}

type ByteLevelRecipe = Extract<TokenizerRecipe, { readonly kind: 'byte-level' }>;

/** Rules of encoding in a tokenizer.json, without its tables. */
interface EncodingRules extends Omit<EncoderSettings, 'tables'> {
  readonly surroundings: Surroundings;
}

function readRules(rest: UnknownRecord, addedTokens: readonly AddedToken[]): EncodingRules | undefined {
  const normalizer = readNormalizer(rest.normalizer);
  const preTokenizer = readPreTokenizer(rest.pre_tokenizer);
  const surroundings = readPostProcessor(rest.post_processor);
  if (normalizer === undefined || preTokenizer === undefined || surroundings === undefined) return undefined;
  const ignoresMerges = asRecord(rest.model)?.ignore_merges === true;
  return { addedTokens, normalize: normalizer.normalize, preTokenizer, ignoresMerges, surroundings };
}

function encodeTextOf(encoder: BpeEncoder, { prefix, suffix }: Surroundings): EncodeText {
  return (text, options = {}) =>
    options.addSpecialTokens === true ? encoder.encode(text, prefix, suffix) : encoder.encode(text, [], []);
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

/** Returns the tables with room for the added tokens and with their bytes. */
export function withAddedTokens(tables: BpeTables, added: readonly AddedToken[]): BpeTables {
  const size = added.reduce((most, token) => Math.max(most, token.id + 1), tables.flags.length);
  const texts = added.map((token) => tokenTextToBytes(token.content));
  const bytes = tables.blob.length + texts.reduce((sum, text) => sum + text.length, 0);
  const grown = {
    ...tables,
    blob: shared(Uint8Array, tables.blob, bytes),
    starts: shared(Uint32Array, tables.starts, size),
    lengths: shared(Uint16Array, tables.lengths, size),
    flags: shared(Uint8Array, tables.flags, size),
  };
  let end = tables.blob.length;
  added.forEach((token, index) => {
    const text = texts[index]!;
    grown.blob.set(text, end);
    grown.starts[token.id] = end;
    grown.lengths[token.id] = text.length;
    const isPlain = unspellBytes(token.content) === undefined;
    grown.flags[token.id] = TOKEN_PRESENT | (isPlain ? TOKEN_PLAIN : 0) | (token.special ? TOKEN_SPECIAL : 0);
    end += text.length;
  });
  return grown;
}

class BpeTokenizer implements Tokenizer {
  readonly vocabSize: number;
  readonly encode: EncodeText;
  readonly recipe: TokenizerRecipe;
  readonly path: string | undefined;
  readonly cut: Tokenizer['cut'];
  readonly fewestTokens: Tokenizer['fewestTokens'];
  readonly #tables: BpeTables;
  readonly #addedTokens: readonly AddedToken[];
  /** Map of added tokens, built by the first lookup. */
  #addedIds: ReadonlyMap<string, number> | undefined;
  readonly #decoder: ByteDecoder;

  constructor(tables: BpeTables, rules: EncodingRules, recipe: TokenizerRecipe, path: string | undefined) {
    this.path = path;
    this.#tables = tables;
    this.#addedTokens = rules.addedTokens;
    this.#decoder = new ByteDecoder(tables);
    this.encode = encodeTextOf(new BpeEncoder({ ...rules, tables }), rules.surroundings);
    this.recipe = recipe;
    const cutter = cutterFor(rules);
    this.cut = cutter && ((text) => cutter.cut(text));
    this.fewestTokens = fewestTokensFor(rules, tables.lengths);
    let size = 0;
    for (let id = 0; id < tables.flags.length; id++) size += tables.flags[id]! & TOKEN_PRESENT;
    this.vocabSize = size;
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
    this.#addedIds ??= new Map(this.#addedTokens.map(({ content, id }) => [content, id]));
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

  /** Finds a token outside the byte alphabet. There are few of these and lookups are rare, so they have no index. */
  #findPlain(token: string): number | undefined {
    const id = this.#tables.flags.findIndex(
      (flags, candidate) => (flags & TOKEN_PLAIN) !== 0 && this.idToToken(candidate) === token,
    );
    return id < 0 ? undefined : id;
  }
}
