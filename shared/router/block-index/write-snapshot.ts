import type { RankTable } from '../scheduler/ranks.ts';
import { type FrozenPages, PAGE_WORDS, type PagedWords } from './paged-words.ts';
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
  VERSION,
} from './snapshot-format.ts';

/** Ranks spelt in one chunk. */
const RANKS_PER_CHUNK = 2000;

/** What a snapshot needs beside the pages, as it was when it was begun. */
interface Frozen {
  readonly workerIds: readonly (string | undefined)[];
  readonly dpRanks: readonly number[];
  readonly ranks: Int32Array;
  readonly blocks: Int32Array;
  readonly hasOwnHashes: Uint8Array;
  readonly cursors: Uint8Array;
  readonly cuts: Int32Array;
  /** By kind of record. */
  readonly pages: readonly FrozenPages[];
  /** Words in use, by kind of record. */
  readonly words: readonly number[];
  readonly head: Int32Array;
}

/**
 * Everything as it is when the first chunk is taken, in chunks. Nothing is held before that, nor once the generator has
 * ended, so that whoever fails before it reads, or leaves in the middle, keeps no copies alive.
 */
export function* writeSnapshot(
  residency: Residency,
  table: RankTable,
  cursors: Uint8Array,
): Generator<Uint8Array, void, void> {
  const frozen = freeze(residency, table, cursors);
  try {
    yield* chunks(residency, frozen);
  } finally {
    for (const [kind, words] of residency.words.entries()) words.thaw(frozen.pages[kind] ?? []);
  }
}

function freeze(residency: Residency, table: RankTable, cursors: Uint8Array): Frozen {
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
    cursors: cursors.slice(),
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
  yield writer.section(CURSORS, 0, frozen.cursors);
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

/** Sections one after another, with the sum of them all at the end. */
class SectionWriter {
  readonly #checksum = new Checksum();
  #bytes = 0;

  section(kind: number, number: number, content: Int32Array | Uint8Array): Uint8Array {
    const words = new Int32Array(SECTION_HEAD_WORDS + 4 * Math.ceil(content.byteLength / 16));
    words.set([kind, number, content.byteLength, 0]);
    const bytes = new Uint8Array(words.buffer);
    bytes.set(new Uint8Array(content.buffer, content.byteOffset, content.byteLength), 4 * SECTION_HEAD_WORDS);
    this.#checksum.add(words);
    this.#bytes += bytes.length;
    return bytes;
  }

  end(): Uint8Array {
    const whole = this.#bytes + 4 * (SECTION_HEAD_WORDS + 8);
    return this.section(END, 0, Int32Array.of(whole | 0, Math.floor(whole / 2 ** 32), 0, 0, ...this.#checksum.words));
  }
}
