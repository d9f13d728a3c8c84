import type { RankTable } from '../scheduler/ranks.ts';
import { BLOCKS_PER_PAGE } from './block-records.ts';
import { PAGE_WORDS } from './paged-words.ts';
import type { Residency } from './residency.ts';
import {
  Checksum,
  CURSORS,
  CUTS,
  END,
  HEAD,
  INCARNATIONS,
  MAGIC,
  PAGES,
  RANKS,
  SECTION_HEAD_WORDS,
  SnapshotError,
  VERSION,
} from './snapshot-format.ts';

const END_WORDS = SECTION_HEAD_WORDS + 8;
const SHARED_HASHES = PAGES + 1;
/** Least room of a set of holders. */
const GRANULES_MIN = 2;
const MIN_WORDS = SECTION_HEAD_WORDS + 8 + END_WORDS;

/** What a snapshot says beside the blocks, which are all in place. */
export interface LoadedSnapshot {
  /** The caller's, as they were given. */
  readonly cursors: Uint8Array;
  /**
   * Numbers the snapshot's ranks in `table`; nothing is held by anybody before.
   * @returns the numbers of those that the table did not know
   */
  numberRanks(table: RankTable): readonly number[];
}

/**
 * Fills an empty `residency` in slices of less than 1 ms; the bytes of the snapshot belong to it from now on. When it
 * fails, it is of no use.
 * @throws SnapshotError when the snapshot is cut off, damaged, or of another version
 */
export function* loadSnapshot(snapshot: Uint8Array, residency: Residency): Generator<void, LoadedSnapshot> {
  const words = framed(snapshot);
  const end = words.length - END_WORDS;
  const head = words.subarray(SECTION_HEAD_WORDS + 2, SECTION_HEAD_WORDS + 5);
  if (head.some((top) => top < 0 || top > words.length)) throw damaged();
  const [blocksTop, hashesTop, setsTop] = head as unknown as [number, number, number];
  const sections = sectionsOf(words, end);
  const hashed = sections.some(({ kind }) => kind === SHARED_HASHES) ? blocksTop : 0;
  yield* residency.table.expect(blocksTop + hashed + hashesTop + setsTop / GRANULES_MIN);
  const checksum = new Checksum();
  const incarnations: Uint8Array[] = [];
  const texts: Uint8Array[] = [];
  const pagesMax = Math.ceil(words.length / PAGE_WORDS) + 1;
  let cursors = new Uint8Array(0);
  let cuts = new Int32Array(0);
  for (const { kind, number, at, next, bytes } of sections) {
    const from = at + SECTION_HEAD_WORDS;
    const content = new Uint8Array(words.buffer, words.byteOffset + 4 * from, bytes);
    if (kind === RANKS) texts.push(content);
    else if (kind === INCARNATIONS) incarnations.push(content.slice());
    else if (kind === CURSORS) cursors = content.slice();
    else if (kind === CUTS) cuts = words.slice(from, from + (bytes >> 2));
    else if (kind >= PAGES && number >= 0 && number < pagesMax && bytes <= 4 * PAGE_WORDS) {
      residency.words[kind - PAGES]?.restore(number, words.subarray(from, from + (bytes >> 2)));
    }
    // While the section is near the processor.
    checksum.add(words.subarray(at, next));
    if (kind === PAGES) residency.blocks.restore(Math.min(blocksTop, (number + 1) * BLOCKS_PER_PAGE));
    yield;
  }
  if (checksum.words.some((word, at) => word !== words[end + SECTION_HEAD_WORDS + 4 + at])) throw damaged();
  const [ofIncarnation, blocks, hasOwnHashes] = incarnations;
  if (ofIncarnation === undefined || blocks === undefined || hasOwnHashes === undefined) throw damaged();
  yield* residency.restore(blocksTop, hashesTop, setsTop);
  residency.cuts.restore(cuts);
  return {
    cursors,
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
  /** First word, and the first one after it. */
  readonly at: number;
  readonly next: number;
  /** Of its content. */
  readonly bytes: number;
}

function sectionsOf(words: Int32Array, end: number): readonly Section[] {
  const sections: Section[] = [];
  for (let at = 0; at < end; ) {
    const [kind = 0, number = 0, bytes = 0] = words.subarray(at, at + 3);
    const next = at + SECTION_HEAD_WORDS + 4 * Math.ceil(bytes / 16);
    if (bytes < 0 || next > end) throw damaged();
    sections.push({ kind, number, at, next, bytes });
    at = next;
  }
  return sections;
}

/** The snapshot as words, once it is certain that it is one of this version and whole. */
function framed(snapshot: Uint8Array): Int32Array {
  const aligned = snapshot.byteOffset % 4 === 0 ? snapshot : snapshot.slice();
  const words = new Int32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >> 2);
  if (words.length < MIN_WORDS) throw cutOff(snapshot);
  if (words[0] !== HEAD || words[SECTION_HEAD_WORDS] !== MAGIC) {
    throw new SnapshotError('this is no snapshot of a block index');
  }
  const version = words[SECTION_HEAD_WORDS + 1] as number;
  if (version !== VERSION) {
    throw new SnapshotError(`the snapshot has version ${version}; this program reads version ${VERSION}`);
  }
  const end = words.subarray(words.length - END_WORDS);
  const bytes = ((end[SECTION_HEAD_WORDS] as number) >>> 0) + (end[SECTION_HEAD_WORDS + 1] as number) * 2 ** 32;
  if (end[0] !== END || bytes !== snapshot.length) throw cutOff(snapshot);
  return words;
}

/** @returns the numbers of ranks that the table did not know */
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

function cutOff(snapshot: Uint8Array): SnapshotError {
  return new SnapshotError(`the snapshot is cut off after ${snapshot.length} bytes`);
}

function damaged(): SnapshotError {
  return new SnapshotError('the snapshot is damaged: its checksum is another one');
}
