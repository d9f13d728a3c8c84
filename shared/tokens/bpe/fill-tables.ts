import { type BpeTables, findPair, findToken, hashBytes, pairSlot, TOKEN_PLAIN, TOKEN_PRESENT } from './tables.ts';

/** Ids beyond this are refused: tables are sized by the largest id. */
export const TOKEN_ID_MAX = 4_000_000;

/** A vocabulary as read, in the order of the file; the arrays may be longer than `count`. */
export interface VocabularyEntries {
  readonly count: number;
  readonly idMax: number;
  readonly ids: Uint32Array;
  /** End of each token's bytes in `blob`; the first begins at 0. */
  readonly ends: Uint32Array;
  /** 1 for tokens outside the byte alphabet. */
  readonly isPlain: Uint8Array;
  readonly blob: Uint8Array<ArrayBuffer>;
  readonly blobLength: number;
}

/** Tables without merges. Undefined when a single byte is missing from the vocabulary: then it is not a byte-level one. */
export function tabulateVocabulary(entries: VocabularyEntries): BpeTables | undefined {
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

/**
 * The pair table of merges.
 * @param ids left, right and merged id of each, in order of rank; `count` merges
 */
export function tabulatePairs(ids: Int32Array, count: number): Int32Array<ArrayBuffer> {
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

function insertToken(tables: BpeTables, id: number, start: number, end: number): void {
  const mask = tables.tokenSlots.length - 1;
  let slot = hashBytes(tables.blob, start, end) & mask;
  while (tables.tokenSlots[slot]! >= 0) slot = (slot + 1) & mask;
  tables.tokenSlots[slot] = id;
}

/** Slots of an open-addressing table that is at most 60 % full. */
function slotsFor(count: number): number {
  let slots = 16;
  while (slots * 0.6 < count) slots *= 2;
  return slots;
}
