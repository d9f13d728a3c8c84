import { JsonScanner } from './json-scanner.ts';
import { type BpeTables, findPair, findToken, hashBytes, pairSlot, TOKEN_PLAIN, TOKEN_PRESENT } from './tables.ts';

/** A tokenizer.json taken apart: the two big tables as typed arrays, the rest as ordinary JSON. */
export interface ScannedTokenizer {
  /** The file without `model.vocab` and `model.merges`, which are `null` in it. */
  readonly rest: unknown;
  /** Undefined when the file holds no byte-level BPE vocabulary. */
  readonly tables: BpeTables | undefined;
}

/** Ids beyond this are refused: tables are sized by the largest id. */
const TOKEN_ID_MAX = 4_000_000;
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
  scanner.at = merges.start; // they stand before the vocabulary
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

/** Reads the value of one key of `model`: the two big ones straight into tables, in one pass over the file. */
function scanModelPart(scanner: JsonScanner, part: string, parts: ModelParts): void {
  const opening = scanner.peek();
  const start = scanner.at;
  if (part === 'vocab' && opening === OPEN_BRACE) parts.tables = scanVocabulary(scanner);
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

/** Undefined when a single byte is missing from the vocabulary: then it is not a byte-level one. */
function scanVocabulary(scanner: JsonScanner): BpeTables | undefined {
  const entries = readEntries(scanner);
  const size = entries.idMax + 1;
  const starts = new Uint32Array(size);
  const lengths = new Uint16Array(size);
  const flags = new Uint8Array(size);
  const tokenSlots = new Int32Array(slotsFor(entries.count)).fill(-1);
  const tables = {
    blob: entries.blob.slice(0, entries.blobLength),
    starts,
    lengths,
    flags,
    tokenSlots,
    pairSlots: new Int32Array(0),
    byteIds: new Int32Array(256),
  };
  let from = 0;
  for (let at = 0; at < entries.count; at++) {
    const id = entries.ids[at]!;
    const end = entries.ends[at]!;
    starts[id] = from;
    lengths[id] = end - from;
    flags[id] = TOKEN_PRESENT | (entries.isPlain[at]! ? TOKEN_PLAIN : 0);
    if (!entries.isPlain[at]) insertToken(tables, id, from, end);
    from = end;
  }
  for (let byte = 0; byte < 256; byte++) {
    const id = findToken(tables, Uint8Array.of(byte), 0, 1);
    if (id < 0) return undefined;
    tables.byteIds[byte] = id;
  }
  return tables;
}

interface VocabularyEntries {
  readonly count: number;
  readonly idMax: number;
  readonly ids: Uint32Array;
  readonly ends: Uint32Array;
  readonly isPlain: Uint8Array;
  readonly blob: Uint8Array<ArrayBuffer>;
  readonly blobLength: number;
}

function readEntries(scanner: JsonScanner): VocabularyEntries {
  // Neither bound can be passed: an entry takes at least 5 bytes of JSON and its text is longer there than in the blob.
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

function insertToken(tables: BpeTables, id: number, start: number, end: number): void {
  const mask = tables.tokenSlots.length - 1;
  let slot = hashBytes(tables.blob, start, end) & mask;
  while (tables.tokenSlots[slot]! >= 0) slot = (slot + 1) & mask;
  tables.tokenSlots[slot] = id;
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

function grown(ids: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(ids.length * 2);
  larger.set(ids);
  return larger;
}

function tabulatePairs(ids: Int32Array, count: number): Int32Array<ArrayBuffer> {
  const pairSlots = new Int32Array(4 * slotsFor(count)).fill(-1);
  const mask = (pairSlots.length >> 2) - 1;
  for (let rank = 0; rank < count; rank++) {
    const left = ids[3 * rank]!;
    const right = ids[3 * rank + 1]!;
    let at = findPair(pairSlots, left, right); // a merge listed twice counts where it is listed last
    if (at < 0) {
      let slot = pairSlot(left, right, mask);
      while (pairSlots[slot << 2]! >= 0) slot = (slot + 1) & mask;
      at = slot << 2;
    }
    pairSlots[at] = left;
    pairSlots[at + 1] = right;
    pairSlots[at + 2] = rank;
    pairSlots[at + 3] = ids[3 * rank + 2]!;
  }
  return pairSlots;
}

/** Slots of an open-addressing table that is at most 60 % full. */
function slotsFor(count: number): number {
  let slots = 16;
  while (slots * 0.6 < count) slots *= 2;
  return slots;
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

  /** Writes left, right and merged id to `ids[at ..]`. */
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
      // The space is the one character of the text outside the alphabet, so `spelled` holds both halves joined.
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
    if (at + length > this.#joined.length) {
      const larger = new Uint8Array(2 * (at + length));
      larger.set(this.#joined);
      this.#joined = larger;
    }
    for (let from = 0; from < length; from++) this.#joined[at + from] = bytes[from]!;
    return at + length;
  }

  /** Bytes that the part before the space spells: one a character. */
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
