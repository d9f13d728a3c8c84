import { type BpeTables, findToken, TOKEN_ID_MAX, tabulatePairs, tabulateVocabulary } from './tables.ts';

const LINE_END = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const PADDING = 0x3d;
/** Finding a token's merge takes time quadratic in its length; published vocabularies stay below 300 bytes. */
const TOKEN_BYTES_MAX = 1024;

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const SEXTETS = new Int8Array(256).fill(-1);
for (let value = 0; value < 64; value++) SEXTETS[BASE64.charCodeAt(value)] = value;

/**
 * Reads a tiktoken file: a line for each token, its bytes in base64, a space and its rank, which is its id too.
 * @throws SyntaxError naming the line, when the file is broken or lacks one of the 256 bytes
 */
export function scanTiktoken(file: Uint8Array): BpeTables {
  const tables = tabulateVocabulary(new LineReader(file).readAll());
  if (tables === undefined) throw new SyntaxError('a byte without a token of its own');
  return { ...tables, pairSlots: findMerges(tables) };
}

class LineReader {
  readonly #file: Uint8Array;
  #at = 0;
  #line = 0;
  readonly #blob: Uint8Array<ArrayBuffer>;
  #blobLength = 0;

  constructor(file: Uint8Array) {
    this.#file = file;
    this.#blob = new Uint8Array(file.length);
  }

  readAll(): Parameters<typeof tabulateVocabulary>[0] {
    const countMax = Math.ceil(this.#file.length / 6) + 1; // `AA== 0` is the shortest line
    const ids = new Uint32Array(countMax);
    const ends = new Uint32Array(countMax);
    let count = 0;
    let idMax = 0;
    while (this.#at < this.#file.length) {
      this.#line++;
      if (this.#skipLineEnd()) continue;
      this.#readToken();
      const id = this.#readRank();
      idMax = Math.max(idMax, id);
      ids[count] = id;
      ends[count++] = this.#blobLength;
    }
    return {
      count,
      idMax,
      ids,
      ends,
      isPlain: new Uint8Array(countMax),
      blob: this.#blob,
      blobLength: this.#blobLength,
    };
  }

  #readToken(): void {
    const start = this.#blobLength;
    let bits = 0;
    let bitCount = 0;
    for (;;) {
      const sextet = SEXTETS[this.#file[this.#at] ?? SPACE]!;
      if (sextet < 0) break;
      this.#at++;
      bits = ((bits << 6) | sextet) & 0xffff;
      bitCount += 6;
      if (bitCount < 8) continue;
      bitCount -= 8;
      this.#blob[this.#blobLength++] = (bits >> bitCount) & 0xff;
    }
    while (this.#file[this.#at] === PADDING) this.#at++;
    if (this.#blobLength === start) this.#fail('no token in base64');
    if (this.#blobLength - start > TOKEN_BYTES_MAX) this.#fail(`a token of more than ${TOKEN_BYTES_MAX} bytes`);
    if (this.#file[this.#at++] !== SPACE) this.#fail('no space after the token');
  }

  #readRank(): number {
    let rank = -1;
    for (; this.#at < this.#file.length; this.#at++) {
      const digit = this.#file[this.#at]! - 0x30;
      if (digit < 0 || digit > 9) break;
      rank = Math.max(rank, 0) * 10 + digit;
      if (rank > TOKEN_ID_MAX) this.#fail(`a rank above ${TOKEN_ID_MAX}`);
    }
    if (rank < 0) this.#fail('no rank');
    if (this.#at < this.#file.length && !this.#skipLineEnd()) this.#fail('text after the rank');
    return rank;
  }

  #skipLineEnd(): boolean {
    const from = this.#at;
    if (this.#file[this.#at] === RETURN) this.#at++;
    if (this.#file[this.#at] === LINE_END) this.#at++;
    return this.#at > from;
  }

  #fail(problem: string): never {
    throw new SyntaxError(`line ${this.#line}: ${problem}`);
  }
}

/**
 * The one pair that each token is merged from. A vocabulary of ranks names no pairs: of adjacent parts, the two whose bytes
 * together have the lowest rank are merged first. The parts inside a token's bytes merge in the same order wherever these
 * stand, so taking the token by itself apart shows its last merge. A token that its parts never merge to is only found as
 * a whole word.
 */
function findMerges(tables: BpeTables): Int32Array<ArrayBuffer> {
  const merges = new Int32Array(3 * tables.flags.length);
  const parts = new TokenParts(tables);
  let count = 0;
  for (let id = 0; id < tables.flags.length; id++) {
    const start = tables.starts[id]!;
    const end = start + tables.lengths[id]!;
    if (start === end) continue;
    if (findToken(tables, tables.blob, start, end) !== id)
      throw new SyntaxError(`the token of rank ${id} is listed twice`);
    if (end - start === 1 || !parts.mergeDownTo2(start, end)) continue;
    merges[3 * count] = parts.ids[0]!;
    merges[3 * count + 1] = parts.ids[1]!;
    merges[3 * count + 2] = id;
    count++;
  }
  return tabulatePairs(merges, count);
}

/** Parts of one token while they are merged; scratch space, used over and over. */
class TokenParts {
  readonly ids = new Int32Array(TOKEN_BYTES_MAX);
  readonly #tables: BpeTables;
  readonly #starts = new Uint32Array(TOKEN_BYTES_MAX + 1);
  /** Rank of part i merged with the next, or -1. */
  readonly #ranks = new Int32Array(TOKEN_BYTES_MAX);

  constructor(tables: BpeTables) {
    this.#tables = tables;
  }

  /** Merges the bytes `blob[start .. end)` until two parts are left; false when more stay. */
  mergeDownTo2(start: number, end: number): boolean {
    const { blob, byteIds } = this.#tables;
    let count = end - start;
    for (let at = 0; at < count; at++) {
      this.ids[at] = byteIds[blob[start + at]!]!;
      this.#starts[at] = start + at;
    }
    this.#starts[count] = end;
    for (let at = 0; at + 1 < count; at++) this.#rank(at);
    while (count > 2) {
      const best = this.#lowest(count);
      if (best < 0) return false;
      this.ids[best] = this.#ranks[best]!;
      this.ids.copyWithin(best + 1, best + 2, count);
      this.#ranks.copyWithin(best + 1, best + 2, count);
      this.#starts.copyWithin(best + 1, best + 2, count + 1);
      count--;
      if (best + 1 < count) this.#rank(best);
      if (best > 0) this.#rank(best - 1);
    }
    return true;
  }

  #rank(at: number): void {
    this.#ranks[at] = findToken(this.#tables, this.#tables.blob, this.#starts[at]!, this.#starts[at + 2]!);
  }

  #lowest(count: number): number {
    let best = -1;
    for (let at = 0; at + 1 < count; at++) {
      const rank = this.#ranks[at]!;
      if (rank >= 0 && (best < 0 || rank < this.#ranks[best]!)) best = at;
    }
    return best;
  }
}
