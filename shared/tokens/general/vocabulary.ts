import { asRecord } from '../../records/index.ts';
import { readAddedTokens } from '../added-tokens.ts';
import { utf8Text } from '../bpe/byte-text.ts';
import {
  findToken,
  hashSlotsOf,
  shared,
  TOKEN_ADDED,
  TOKEN_ID_MAX,
  TOKEN_PRESENT,
  TOKEN_SPECIAL,
  type TokenTables,
} from '../bpe/tables.ts';
import { UnsupportedTokenizer } from '../tokenizer-shape.ts';

/** Parts of a tokenizer.json that decoding needs. Structured-clonable; the tables are in memory that threads share. */
export interface GeneralTables {
  readonly tokens: TokenTables;
  /** Number of distinct tokens. */
  readonly size: number;
  readonly decoder: unknown;
  /** Suffix that ends the words of a BPE model and becomes a blank in text. */
  readonly wordEnd: string | undefined;
}

/**
 * Extracts from a tokenizer.json what decoding needs. @throws UnsupportedTokenizer, or SyntaxError of the added tokens
 */
export function tabulateGeneral(json: unknown): GeneralTables {
  const file = asRecord(json) ?? {};
  const model = asRecord(file.model) ?? {};
  const texts = tokensById(model.vocab);
  const added = readAddedTokens(file.added_tokens);
  for (const { id, content } of added) texts[id] = content;
  const marks: TokenMarks = {
    added: new Set(added.map(({ id }) => id)),
    special: new Set(added.filter((token) => token.special).map(({ content }) => content)),
  };
  const { end_of_word_suffix: end } = model;
  const isBpe = model.type === 'BPE' || (model.type === undefined && Array.isArray(model.merges));
  const hasWordEnd = isBpe && typeof end === 'string' && end !== '';
  return { ...tabulate(texts, marks), decoder: file.decoder ?? null, wordEnd: hasWordEnd ? end : undefined };
}

/** Returns the tokens by id, with holes for missing ids. */
function tokensById(vocab: unknown): (string | undefined)[] {
  if (Array.isArray(vocab)) return vocab.map((entry: readonly [string]) => entry[0]);
  const texts: (string | undefined)[] = [];
  for (const [token, id] of Object.entries(asRecord(vocab) ?? {})) {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > TOKEN_ID_MAX) {
      throw new UnsupportedTokenizer(`model.vocab has an id that is not a whole number up to ${TOKEN_ID_MAX}`);
    }
    texts[id] = token;
  }
  return texts;
}

interface TokenMarks {
  readonly added: ReadonlySet<number>;
  /** Texts of special tokens: every token with one of these texts is special. */
  readonly special: ReadonlySet<string>;
}

function tabulate(texts: readonly (string | undefined)[], { added, special }: TokenMarks) {
  const encoded = Array.from(texts, (text) => (text === undefined ? undefined : Buffer.from(text)));
  const blob = shared(
    Uint8Array,
    new Uint8Array(0),
    encoded.reduce((sum, bytes) => sum + (bytes?.length ?? 0), 0),
  );
  const starts = shared(Uint32Array, new Uint32Array(0), texts.length);
  const lengths = shared(Uint32Array, new Uint32Array(0), texts.length);
  const flags = shared(Uint8Array, new Uint8Array(0), texts.length);
  let end = 0;
  for (const [id, bytes] of encoded.entries()) {
    if (bytes === undefined) continue;
    blob.set(bytes, end);
    starts[id] = end;
    lengths[id] = bytes.length;
    flags[id] = TOKEN_PRESENT | (added.has(id) ? TOKEN_ADDED : 0) | (special.has(texts[id]!) ? TOKEN_SPECIAL : 0);
    end += bytes.length;
  }
  const { slots, distinct } = hashSlotsOf({ blob, starts, lengths, flags });
  return { tokens: { blob, starts, lengths, flags, tokenSlots: shared(Int32Array, slots) }, size: distinct };
}

/** Tokens of a tokenizer, by id and by text. */
export class Vocabulary {
  readonly #tables: TokenTables;
  /** Texts looked up before, by id. */
  readonly #texts = new Map<number, string>();

  constructor(tables: TokenTables) {
    this.#tables = tables;
  }

  text(id: number): string | undefined {
    const known = this.#texts.get(id);
    if (known !== undefined) return known;
    if (!this.has(id)) return undefined;
    const { blob, starts, lengths } = this.#tables;
    const text = utf8Text(blob, starts[id]!, starts[id]! + lengths[id]!);
    this.#texts.set(id, text);
    return text;
  }

  idOf(text: string): number | undefined {
    const bytes = Buffer.from(text);
    const id = findToken(this.#tables, bytes, 0, bytes.length);
    return id < 0 ? undefined : id;
  }

  has(id: number): boolean {
    return ((this.#tables.flags[id] ?? 0) & TOKEN_PRESENT) !== 0;
  }

  isSpecial(id: number): boolean {
    return ((this.#tables.flags[id] ?? 0) & TOKEN_SPECIAL) !== 0;
  }

  isAdded(text: string): boolean {
    const id = this.idOf(text);
    return id !== undefined && (this.#tables.flags[id]! & TOKEN_ADDED) !== 0;
  }
}
