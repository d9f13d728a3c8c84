/**
 * A snapshot is a row of sections, each with a head of four little-endian words, and padded to whole words:
 *
 *     kind | number | bytes of its content | 0 | content
 *
 *     HEAD      version, and how far the numbers of records go
 *     RANKS     one line a rank: number, data-parallel rank, worker id
 *     INCARNATIONS   of all incarnations: ranks, blocks, flags
 *     CURSORS   the caller's, as they are
 *     CUTS      what removals have yet to take along; absent where that is nothing
 *     PAGES     one of some kind of record each, as it stands in memory
 *     END       bytes of the whole, two words, and the checksum of everything before, four words
 *
 * Hash tables are not written: filling them anew takes less time than reading them.
 */
export const VERSION = 1;
export const MAGIC = 0x4e53_4253; // SBSN
export const SECTION_HEAD_WORDS = 4;

export const HEAD = 1;
export const RANKS = 2;
export const INCARNATIONS = 3;
export const CURSORS = 4;
export const CUTS = 5;
/** Pages of kind `PAGES + n` are those of `Residency.words[n]`. */
export const PAGES = 8;
export const END = 16;

/** A snapshot that cannot be loaded; `message` says what is wrong with it. */
export class SnapshotError extends Error {
  override readonly name = 'SnapshotError';
}

const PRIME = 0x0100_0193;

/** Four sums side by side, so that the processor need not wait for each. It finds damage, not malice. */
export class Checksum {
  readonly #sums = Int32Array.of(0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f);

  /** @param words a multiple of four */
  add(words: Int32Array): void {
    let [a, b, c, d] = this.#sums as unknown as [number, number, number, number];
    for (let at = 0; at < words.length; at += 4) {
      a = Math.imul(a ^ (words[at] as number), PRIME);
      b = Math.imul(b ^ (words[at + 1] as number), PRIME);
      c = Math.imul(c ^ (words[at + 2] as number), PRIME);
      d = Math.imul(d ^ (words[at + 3] as number), PRIME);
    }
    this.#sums.set([a, b, c, d]);
  }

  get words(): Int32Array {
    return this.#sums;
  }
}
