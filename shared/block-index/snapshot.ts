import { BLOCKS_PER_PAGE } from './block-records.ts';
import { type FrozenPages, PAGE_WORDS, type PagedWords } from './memory.ts';
import type { RankTable } from './rank-table.ts';
import type { Residency } from './residency.ts';

/**
 * A snapshot is a sequence of sections. Each has a head of four little-endian words and is padded to whole words:
 *
 *     kind | number | bytes of its content | 0 | content
 *
 *     HEAD      version, and how far the numbers of records go
 *     RANKS     one line a rank: number, data-parallel rank, worker id
 *     INCARNATIONS   of all incarnations: ranks, blocks, flags
 *     CUTS      the work that removals have left; absent if there is none
 *     PAGES     one of some kind of record each, as it stands in memory
 *     END       bytes of the whole, two words
 *
 * Hash tables are not written: filling them anew takes less time than reading them. The code that keeps the bytes must
 * detect damage.
 */
const VERSION = 2;
const MAGIC = 0x4e53_4253; // SBSN
const SECTION_HEAD_WORDS = 4;

const HEAD = 1;
const RANKS = 2;
const INCARNATIONS = 3;
const CUTS = 5;
/** Kind of the first pages: those of kind `PAGES + n` belong to `Residency.words[n]`. */
const PAGES = 8;
const END = 16;

/** Number of ranks written in one chunk. */
const RANKS_PER_CHUNK = 2000;

/** The parts of a snapshot other than the pages, as they were at its beginning. */
interface Frozen {
  readonly workerIds: readonly (string | undefined)[];
  readonly dpRanks: readonly number[];
  readonly ranks: Int32Array;
  readonly blocks: Int32Array;
  readonly hasOwnHashes: Uint8Array;
  readonly cuts: Int32Array;
  /** Frozen pages by kind of record. */
  readonly pages: readonly FrozenPages[];
  /** Words in use, by kind of record. */
  readonly words: readonly number[];
  readonly head: Int32Array;
}

/**
 * Yields everything as it is when the first chunk is taken, in chunks. Nothing is kept before the first chunk, nor
 * after the generator has ended. So a caller that fails before it reads, or stops in the middle, keeps no copies alive.
 */
export function* writeSnapshot(residency: Residency, table: RankTable): Generator<Uint8Array, void, void> {
  const frozen = freeze(residency, table);
  try {
    yield* chunks(residency, frozen);
  } finally {
    for (const [kind, words] of residency.words.entries()) words.thaw(frozen.pages[kind] ?? []);
  }
}

function freeze(residency: Residency, table: RankTable): Frozen {
  const { blocks, engineHashes, sets, incarnations } = residency;
  const capacity = table.capacity;
  const head = Int32Array.of(MAGIC, VERSION, blocks.top, engineHashes.top, sets.top, incarnations.count, 0, 0);
  const inUse = [8 * blocks.top, 4 * blocks.top, 8 * engineHashes.top, 4 * sets.top, 2 * blocks.top];
  return {
    workerIds: Array.from({ length: capacity }, (_, rank) => table.workerIdOf(rank)),
    dpRanks: Array.from({ length: capacity }, (_, rank) => table.dpRankOf(rank)),
    ranks: incarnations.ranks.slice(0, incarnations.count),
    blocks: incarnations.blocks.slice(0, incarnations.count),
    hasOwnHashes: incarnations.hasOwnHashes.slice(0, incarnations.count),
    cuts: residency.cuts.toWords(),
    pages: residency.words.map((words) => words.freeze()),
    words: inUse.map((words, kind) => Math.min(words, (residency.words[kind]?.pages.length ?? 0) * PAGE_WORDS)),
    head,
  };
}

function* chunks(residency: Residency, frozen: Frozen): Generator<Uint8Array, void, void> {
  const writer = new SectionWriter();
  yield writer.section(HEAD, 0, frozen.head);
  for (let from = 0; from < frozen.workerIds.length; from += RANKS_PER_CHUNK) {
    yield writer.section(RANKS, from, new TextEncoder().encode(spellRanks(frozen, from, from + RANKS_PER_CHUNK)));
  }
  yield writer.section(INCARNATIONS, 0, frozen.ranks);
  yield writer.section(INCARNATIONS, 1, frozen.blocks);
  yield writer.section(INCARNATIONS, 2, frozen.hasOwnHashes);
  if (frozen.cuts.length > 0) yield writer.section(CUTS, 0, frozen.cuts);
  for (const [kind, words] of residency.words.entries()) yield* pages(writer, kind, words, frozen);
  yield writer.end();
}

function* pages(writer: SectionWriter, kind: number, words: PagedWords, frozen: Frozen): Generator<Uint8Array> {
  const inUse = frozen.words[kind] ?? 0;
  for (let page = 0; page * PAGE_WORDS < inUse; page++) {
    const content = words.take(frozen.pages[kind] ?? [], page);
    yield writer.section(PAGES + kind, page, content.subarray(0, inUse - page * PAGE_WORDS));
  }
}

function spellRanks({ workerIds, dpRanks }: Frozen, from: number, to: number): string {
  let text = '';
  for (let rank = from; rank < Math.min(to, workerIds.length); rank++) {
    if (workerIds[rank] !== undefined) text += `${rank} ${dpRanks[rank]} ${workerIds[rank]}\n`;
  }
  return text;
}

/** Writes sections one after another, with their total length at the end. */
class SectionWriter {
  #bytes = 0;

  section(kind: number, number: number, content: Int32Array | Uint8Array): Uint8Array {
    const words = new Int32Array(SECTION_HEAD_WORDS + 4 * Math.ceil(content.byteLength / 16));
    words.set([kind, number, content.byteLength, 0]);
    const bytes = new Uint8Array(words.buffer);
    bytes.set(new Uint8Array(content.buffer, content.byteOffset, content.byteLength), 4 * SECTION_HEAD_WORDS);
    this.#bytes += bytes.length;
    return bytes;
  }

  end(): Uint8Array {
    const whole = this.#bytes + 4 * END_WORDS;
    return this.section(END, 0, Int32Array.of(whole | 0, Math.floor(whole / 2 ** 32)));
  }
}

const END_WORDS = SECTION_HEAD_WORDS + 4;
const SHARED_HASHES = PAGES + 1;
/** Least number of granules for sets of holders. */
const GRANULES_MIN = 2;
const MIN_WORDS = SECTION_HEAD_WORDS + 8 + END_WORDS;

/** The contents of a snapshot that was read but is not in place yet. */
export interface LoadedBlockIndex {
  readonly residency: Residency;
  /**
   * Numbers the snapshot's ranks in `table`. Call it once, in the turn of the event loop in which the index is put in
   * place, because the numbers are valid from then on. Before it, no rank holds anything.
   * @returns the numbers of the ranks that the table did not know
   */
  numberRanks(table: RankTable): readonly number[];
}

/**
 * Fills an empty `residency` in slices of less than 1 ms. It owns the bytes of the snapshot from then on. After a
 * failure it is unusable.
 * @throws RangeError if the snapshot is cut off, its parts do not fit together, or it has another version
 */
export function* loadSnapshot(snapshot: Uint8Array, residency: Residency): Generator<void, LoadedBlockIndex> {
  const words = framed(snapshot);
  const end = words.length - END_WORDS;
  const head = words.subarray(SECTION_HEAD_WORDS + 2, SECTION_HEAD_WORDS + 5);
  if (head.some((top) => top < 0 || top > words.length)) throw damaged();
  const [blocksTop, hashesTop, setsTop] = head as unknown as [number, number, number];
  const sections = sectionsOf(words, end);
  const hashed = sections.some(({ kind }) => kind === SHARED_HASHES) ? blocksTop : 0;
  yield* residency.table.expect(blocksTop + hashed + hashesTop + setsTop / GRANULES_MIN);
  const incarnations: Uint8Array[] = [];
  const texts: Uint8Array[] = [];
  const pagesMax = Math.ceil(words.length / PAGE_WORDS) + 1;
  let cuts = new Int32Array(0);
  for (const { kind, number, from, bytes } of sections) {
    const content = new Uint8Array(words.buffer, words.byteOffset + 4 * from, bytes);
    if (kind === RANKS) texts.push(content);
    else if (kind === INCARNATIONS) incarnations.push(content.slice());
    else if (kind === CUTS) cuts = words.slice(from, from + (bytes >> 2));
    else if (kind >= PAGES && number >= 0 && number < pagesMax && bytes <= 4 * PAGE_WORDS) {
      residency.words[kind - PAGES]?.restore(number, words.subarray(from, from + (bytes >> 2)));
    }
    if (kind === PAGES) residency.blocks.restore(Math.min(blocksTop, (number + 1) * BLOCKS_PER_PAGE));
    yield;
  }
  const [ofIncarnation, blocks, hasOwnHashes] = incarnations;
  if (ofIncarnation === undefined || blocks === undefined || hasOwnHashes === undefined) throw damaged();
  yield* residency.restore(blocksTop, hashesTop, setsTop);
  residency.cuts.restore(cuts);
  return {
    residency,
    numberRanks(table) {
      const ranks = new Map<number, number>();
      const unknownRanks = texts.flatMap((text) => internRanks(new TextDecoder().decode(text), table, ranks));
      const known = new Int32Array(ofIncarnation.buffer).map((rank) => ranks.get(rank) ?? -1);
      residency.incarnations.restore(known, new Int32Array(blocks.buffer), hasOwnHashes);
      return unknownRanks;
    },
  };
}

interface Section {
  readonly kind: number;
  readonly number: number;
  /** First word of its content. */
  readonly from: number;
  /** Bytes of its content. */
  readonly bytes: number;
}

function sectionsOf(words: Int32Array, end: number): readonly Section[] {
  const sections: Section[] = [];
  for (let at = 0; at < end; ) {
    const [kind = 0, number = 0, bytes = 0] = words.subarray(at, at + 3);
    const from = at + SECTION_HEAD_WORDS;
    at = from + 4 * Math.ceil(bytes / 16);
    if (bytes < 0 || at > end) throw damaged();
    sections.push({ kind, number, from, bytes });
  }
  return sections;
}

/** Returns the snapshot as words, after a check that it has this version and is complete. */
function framed(snapshot: Uint8Array): Int32Array {
  const aligned = snapshot.byteOffset % 4 === 0 ? snapshot : snapshot.slice();
  const words = new Int32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >> 2);
  if (words.length < MIN_WORDS) throw cutOff(snapshot);
  if (words[0] !== HEAD || words[SECTION_HEAD_WORDS] !== MAGIC) {
    throw new RangeError('this is not a snapshot of a block index');
  }
  const version = words[SECTION_HEAD_WORDS + 1] as number;
  if (version !== VERSION) {
    throw new RangeError(`the snapshot has version ${version}; this program reads version ${VERSION}`);
  }
  const end = words.subarray(words.length - END_WORDS);
  const bytes = ((end[SECTION_HEAD_WORDS] as number) >>> 0) + (end[SECTION_HEAD_WORDS + 1] as number) * 2 ** 32;
  if (end[0] !== END || bytes !== snapshot.length) throw cutOff(snapshot);
  return words;
}

/** @returns the numbers of the ranks that the table did not know */
function internRanks(text: string, table: RankTable, ranks: Map<number, number>): readonly number[] {
  const unknownRanks: number[] = [];
  for (const line of text.split('\n')) {
    const [rank, dpRank, workerId] = line.split(' ');
    if (workerId === undefined) continue;
    const isKnown = table.find(workerId, Number(dpRank)) !== undefined;
    const number = table.intern(workerId, Number(dpRank));
    ranks.set(Number(rank), number);
    if (!isKnown) unknownRanks.push(number);
  }
  return unknownRanks;
}

function cutOff(snapshot: Uint8Array): RangeError {
  return new RangeError(`the snapshot is cut off after ${snapshot.length} bytes`);
}

function damaged(): RangeError {
  return new RangeError('the snapshot is damaged: its parts do not fit together');
}
