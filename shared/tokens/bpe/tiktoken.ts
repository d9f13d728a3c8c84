import {
  type BpeTables,
  findToken,
  TOKEN_ID_MAX,
  tabulatePairs,
  tabulateVocabulary,
  type VocabularyEntries,
} from './tables.ts';

/**
 * Longest token that is accepted. Finding a token's merge takes time quadratic in its length; published vocabularies
 * stay below 300 bytes.
 */
const TOKEN_BYTES_MAX = 1024;
/** A line with its end. An empty line matches too. */
const LINE = /(?:([A-Za-z0-9+/]+)=* (\d+))?(?:\r\n?|\n|$)/y;

/**
 * Reads a tiktoken file. Each line has one token: its bytes in base64, a space and its rank, which is also its id.
 * @throws SyntaxError naming the line, when the file is broken or lacks one of the 256 bytes
 */
export function scanTiktoken(file: Uint8Array): BpeTables {
  const tables = tabulateVocabulary(readEntries(Buffer.from(file).toString('latin1')));
  if (tables === undefined) throw new SyntaxError('a byte has no token of its own');
  return { ...tables, pairSlots: findMerges(tables) };
}

function readEntries(text: string): VocabularyEntries {
  const blob = Buffer.alloc(text.length); // longer than the bytes that it spells
  const countMax = Math.ceil(text.length / 5) + 1; // `AA 0` and its line end are the shortest line
  const ids = new Uint32Array(countMax);
  const ends = new Uint32Array(countMax);
  let count = 0;
  let idMax = 0;
  let blobLength = 0;
  LINE.lastIndex = 0;
  for (let at = 0; LINE.lastIndex < text.length; at++) {
    const [, base64, rank] = LINE.exec(text) ?? fail(at, 'not a token in base64, a space and a rank');
    if (base64 === undefined) continue;
    const bytes = blob.write(base64, blobLength, 'base64');
    if (bytes === 0) fail(at, 'the token is not valid base64');
    if (bytes > TOKEN_BYTES_MAX) fail(at, `a token of more than ${TOKEN_BYTES_MAX} bytes`);
    const id = Number(rank);
    if (id > TOKEN_ID_MAX) fail(at, `a rank above ${TOKEN_ID_MAX}`);
    blobLength += bytes;
    idMax = Math.max(idMax, id);
    ids[count] = id;
    ends[count++] = blobLength;
  }
  return { count, idMax, ids, ends, isPlain: new Uint8Array(count), blob, blobLength };
}

function fail(at: number, problem: string): never {
  throw new SyntaxError(`line ${at + 1}: ${problem}`);
}

/**
 * Finds the one pair that each token is merged from. A vocabulary of ranks names no pairs: among adjacent parts, the
 * two whose joined bytes have the lowest rank are merged first. The parts of a token merge in the same order wherever
 * its bytes stand, so merging the token by itself shows its last merge. A token that its parts never merge to is only
 * found as a whole word.
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

/** Parts of one token while they are merged. The arrays are scratch space that every token reuses. */
class TokenParts {
  readonly ids = new Int32Array(TOKEN_BYTES_MAX);
  readonly #tables: BpeTables;
  readonly #starts = new Uint32Array(TOKEN_BYTES_MAX + 1);
  /** Rank of part i merged with the next, or -1. */
  readonly #ranks = new Int32Array(TOKEN_BYTES_MAX);

  constructor(tables: BpeTables) {
    this.#tables = tables;
  }

  /** Merges the bytes `blob[start .. end)` until two parts are left. Returns false when more remain. */
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
      count--;
      for (let at = best + 1; at <= count; at++) {
        this.ids[at] = this.ids[at + 1]!;
        this.#ranks[at] = this.#ranks[at + 1]!;
        this.#starts[at] = this.#starts[at + 1]!;
      }
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
