import { grown } from '../../records/index.ts';
import type { PackedAddedTokens } from '../added-tokens.ts';
import { JsonScanner } from './json-scanner.ts';
import {
  type BpeTables,
  findToken,
  TOKEN_ID_MAX,
  tabulatePairs,
  tabulateVocabulary,
  type VocabularyEntries,
} from './tables.ts';

/** Content of a tokenizer file: the two large tables as typed arrays, the rest as ordinary JSON. */
export interface ScannedTokenizer {
  /** The tokenizer.json without `model.vocab` and `model.merges`, which are `null` in it. */
  readonly rest: unknown;
  /** Tables of the vocabulary; undefined when the file has no byte-level BPE vocabulary. */
  readonly tables: BpeTables | undefined;
  /**
   * Added tokens that `tables` already holds and `rest` no longer does. @default those of `rest`, which the tables lack
   */
  readonly addedTokens?: PackedAddedTokens | undefined;
}

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COLON = 0x3a;
const COMMA = 0x2c;

/** Reads a tokenizer.json. @throws SyntaxError when it is not JSON or its vocabulary contradicts itself */
export function scanTokenizerJson(json: Uint8Array): ScannedTokenizer {
  const scanner = new JsonScanner(json);
  const parts: ModelParts = { tables: undefined, vocab: undefined, merges: undefined };
  forEachKey(scanner, (key) => {
    if (key !== 'model' || scanner.peek() !== OPEN_BRACE) return scanner.skipValue();
    forEachKey(scanner, (part) => scanModelPart(scanner, part, parts));
  });
  if (scanner.peek() >= 0) scanner.fail('unexpected text after the end');
  const rest: unknown = JSON.parse(withoutParts(json, parts));
  const { tables, merges } = parts;
  if (tables === undefined || merges === undefined) return { rest, tables: undefined };
  if (tables.pairSlots.length > 0) return { rest, tables };
  scanner.at = merges.start; // the merges stand before the vocabulary
  return { rest, tables: { ...tables, pairSlots: scanMerges(scanner, tables) } };
}

interface Range {
  readonly start: number;
  readonly end: number;
}

interface ModelParts {
  tables: BpeTables | undefined;
  vocab: Range | undefined;
  merges: Range | undefined;
}

/** Reads the value of one key of `model`; reads the two large ones straight into tables, in one pass over the file. */
function scanModelPart(scanner: JsonScanner, part: string, parts: ModelParts): void {
  const opening = scanner.peek();
  const start = scanner.at;
  if (part === 'vocab' && opening === OPEN_BRACE) parts.tables = tabulateVocabulary(readEntries(scanner));
  else if (part === 'merges' && opening === OPEN_BRACKET && parts.tables !== undefined) {
    parts.tables = { ...parts.tables, pairSlots: scanMerges(scanner, parts.tables) };
  } else scanner.skipValue();
  if (part === 'vocab') parts.vocab = { start, end: scanner.at };
  if (part === 'merges') parts.merges = { start, end: scanner.at };
}

/** Calls `visit` with the scanner before each value of the object that comes next; `visit` consumes the value. */
function forEachKey(scanner: JsonScanner, visit: (key: string) => void): void {
  scanner.expect(OPEN_BRACE);
  if (scanner.take(CLOSE_BRACE)) return;
  do {
    scanner.readString();
    const key = scanner.rawText();
    scanner.expect(COLON);
    visit(key);
  } while (scanner.take(COMMA));
  scanner.expect(CLOSE_BRACE);
}

function withoutParts(json: Uint8Array, parts: ModelParts): string {
  const cuts = [parts.vocab, parts.merges].filter((cut) => cut !== undefined).sort((a, b) => a.start - b.start);
  const decoder = new TextDecoder();
  let text = '';
  let from = 0;
  for (const cut of cuts) {
    text += `${decoder.decode(json.subarray(from, cut.start))}null`;
    from = cut.end;
  }
  return text + decoder.decode(json.subarray(from));
}

function readEntries(scanner: JsonScanner): VocabularyEntries {
  // No vocabulary exceeds these sizes: an entry takes at least 5 bytes of JSON, and its text is longer there than in
  // the blob. Memory that is never written costs nothing.
  // Memory that is not written to costs nothing.
  const countMax = Math.ceil(scanner.bytesLeft / 5) + 1;
  const ids = new Uint32Array(countMax);
  const ends = new Uint32Array(countMax);
  const isPlain = new Uint8Array(countMax);
  const blob = new Uint8Array(scanner.bytesLeft);
  scanner.expect(OPEN_BRACE);
  let count = 0;
  let idMax = 0;
  let blobLength = 0;
  if (scanner.take(CLOSE_BRACE)) return { count, idMax, ids, ends, isPlain, blob, blobLength };
  do {
    scanner.readString();
    const { isSpelled } = scanner;
    const bytes = isSpelled ? scanner.spelled : scanner.raw;
    const length = isSpelled ? scanner.spelledLength : scanner.rawLength;
    if (length > 0xffff) scanner.fail('token of more than 65535 bytes');
    for (let at = 0; at < length; at++) blob[blobLength++] = bytes[at]!;
    scanner.expect(COLON);
    const id = scanner.readInteger();
    if (id > TOKEN_ID_MAX) scanner.fail(`token id ${id} is above ${TOKEN_ID_MAX}`);
    idMax = Math.max(idMax, id);
    ids[count] = id;
    isPlain[count] = isSpelled ? 0 : 1;
    ends[count++] = blobLength;
  } while (scanner.take(COMMA));
  scanner.expect(CLOSE_BRACE);
  return { count, idMax, ids, ends, isPlain, blob, blobLength };
}

function scanMerges(scanner: JsonScanner, tables: BpeTables): Int32Array<ArrayBuffer> {
  const pairs = new MergeReader(scanner, tables);
  let ids = new Int32Array(3 * 0x10000);
  let count = 0;
  scanner.expect(OPEN_BRACKET);
  if (scanner.peek() !== CLOSE_BRACKET) {
    do {
      if (3 * count === ids.length) ids = grown(ids);
      pairs.read(ids, 3 * count);
      count++;
    } while (scanner.take(COMMA));
  }
  scanner.expect(CLOSE_BRACKET);
  return tabulatePairs(ids, count);
}

/** Reads one merge, written as `"a b"` or as `["a", "b"]`. */
class MergeReader {
  readonly #scanner: JsonScanner;
  readonly #tables: BpeTables;
  #joined = new Uint8Array(2048);

  constructor(scanner: JsonScanner, tables: BpeTables) {
    this.#scanner = scanner;
    this.#tables = tables;
  }

  /** Writes the left, right and merged id to `ids[at ..]`. */
  read(ids: Int32Array, at: number): void {
    const scanner = this.#scanner;
    let split: number;
    let length: number;
    if (scanner.take(OPEN_BRACKET)) {
      scanner.readString();
      split = this.#append(scanner.spelled, scanner.spelledLength, 0);
      scanner.expect(COMMA);
      scanner.readString();
      length = this.#append(scanner.spelled, scanner.spelledLength, split);
      scanner.expect(CLOSE_BRACKET);
    } else {
      scanner.readString();
      // The space is the only character of the text outside the alphabet, so `spelled` holds both halves joined.
      split = this.#leftLength();
      length = this.#append(scanner.spelled, scanner.spelledLength, 0);
    }
    const left = findToken(this.#tables, this.#joined, 0, split);
    const right = findToken(this.#tables, this.#joined, split, length);
    const merged = findToken(this.#tables, this.#joined, 0, length);
    if (left < 0 || right < 0 || merged < 0) scanner.fail('a merge names a token that the vocabulary lacks, before');
    ids[at] = left;
    ids[at + 1] = right;
    ids[at + 2] = merged;
  }

  #append(bytes: Uint8Array, length: number, at: number): number {
    if (at + length > this.#joined.length) this.#joined = grown(this.#joined, 2 * (at + length));
    for (let from = 0; from < length; from++) this.#joined[at + from] = bytes[from]!;
    return at + length;
  }

  /** Returns how many bytes the part before the space spells: one byte for each character. */
  #leftLength(): number {
    const { raw, rawLength } = this.#scanner;
    let characters = 0;
    for (let at = 0; at < rawLength; at++) {
      if (raw[at] === 0x20) return characters;
      if ((raw[at]! & 0xc0) !== 0x80) characters++;
    }
    return this.#scanner.fail('a merge without a space, before');
  }
}
