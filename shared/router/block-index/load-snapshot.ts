import type { RankTable } from '../rank-table.ts';
import type { Holdings } from './holdings.ts';
import {
  Checksum,
  CURSORS,
  END,
  HEAD,
  MAGIC,
  PAGES,
  RANKS,
  SECTION_HEAD_WORDS,
  SnapshotError,
  TENURES,
  VERSION,
} from './snapshot-format.ts';

const END_WORDS = SECTION_HEAD_WORDS + 8;
const MIN_WORDS = SECTION_HEAD_WORDS + 8 + END_WORDS;

/** Fills empty `holdings`, and numbers the ranks of the snapshot in `table`. @returns the caller's cursors */
export function loadSnapshot(snapshot: Uint8Array, holdings: Holdings, table: RankTable): Uint8Array {
  const words = verify(snapshot);
  const head = words.subarray(SECTION_HEAD_WORDS);
  const tenures: Uint8Array[] = [];
  const ranks = new Map<number, number>();
  let cursors = new Uint8Array(0);
  for (let at = 0; at < words.length; ) {
    const kind = words[at] as number;
    const number = words[at + 1] as number;
    const bytes = words[at + 2] as number;
    const content = new Uint8Array(words.buffer, words.byteOffset + 4 * (at + SECTION_HEAD_WORDS), bytes);
    if (kind === RANKS) internRanks(new TextDecoder().decode(content), table, ranks);
    else if (kind === TENURES) tenures.push(content.slice());
    else if (kind === CURSORS) cursors = content.slice();
    else if (kind >= PAGES && kind < END) {
      holdings.words[kind - PAGES]?.restore(number, new Int32Array(content.buffer, content.byteOffset, bytes >> 2));
    }
    at += SECTION_HEAD_WORDS + 4 * Math.ceil(bytes / 16);
  }
  const [ofTenure, blocks, isNamed] = tenures;
  if (ofTenure === undefined || blocks === undefined || isNamed === undefined) throw damaged();
  const known = new Int32Array(ofTenure.buffer).map((rank) => ranks.get(rank) ?? -1);
  holdings.tenures.restore(known, new Int32Array(blocks.buffer), isNamed);
  holdings.restore(head[2] as number, head[3] as number, head[4] as number);
  return cursors;
}

/** The snapshot as words, once it is certain that they are all there and as they were written. */
function verify(snapshot: Uint8Array): Int32Array {
  const aligned = snapshot.byteOffset % 4 === 0 ? snapshot : snapshot.slice();
  const words = new Int32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >> 2);
  if (words.length < MIN_WORDS) throw cutOff(snapshot);
  if (words[0] !== HEAD || words[SECTION_HEAD_WORDS] !== MAGIC)
    throw new SnapshotError('this is no snapshot of a block index');
  const version = words[SECTION_HEAD_WORDS + 1] as number;
  if (version !== VERSION) {
    throw new SnapshotError(`the snapshot has version ${version}; this program reads version ${VERSION}`);
  }
  const end = words.subarray(words.length - END_WORDS);
  const bytes = ((end[SECTION_HEAD_WORDS] as number) >>> 0) + (end[SECTION_HEAD_WORDS + 1] as number) * 2 ** 32;
  if (end[0] !== END || bytes !== snapshot.length) throw cutOff(snapshot);
  const checksum = new Checksum();
  checksum.add(words.subarray(0, words.length - END_WORDS));
  if (checksum.words.some((word, at) => word !== end[SECTION_HEAD_WORDS + 4 + at])) throw damaged();
  return words;
}

function internRanks(text: string, table: RankTable, ranks: Map<number, number>): void {
  for (const line of text.split('\n')) {
    const [rank, dpRank, workerId] = line.split(' ');
    if (workerId !== undefined) ranks.set(Number(rank), table.intern(workerId, Number(dpRank)));
  }
}

function cutOff(snapshot: Uint8Array): SnapshotError {
  return new SnapshotError(`the snapshot is cut off after ${snapshot.length} bytes`);
}

function damaged(): SnapshotError {
  return new SnapshotError('the snapshot is damaged: its checksum is another one');
}
