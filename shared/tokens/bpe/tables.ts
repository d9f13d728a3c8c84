import { fnv1aOfBytes } from '../../records/index.ts';

/**
 * A byte-level BPE vocabulary on typed arrays. 150,000 tokens and as many merges cost about 8 MB; another thread builds
 * them and hands them over without a copy.
 *
 *     id ──> starts[id], lengths[id] ──> blob          bytes of the token
 *     bytes ──hash──> tokenSlots                       id, or -1 for an empty slot
 *     (left, right) ──hash──> pairSlots[4 * slot]      left (-1 = empty), right, rank, id of the merged token
 */
export type BpeTables = { readonly [Name in keyof typeof TABLE_TYPES]: InstanceType<(typeof TABLE_TYPES)[Name]> };

/** Types of the tables, in the order in which files keep them. */
export const TABLE_TYPES = {
  blob: Uint8Array,
  starts: Uint32Array,
  lengths: Uint16Array,
  /** Bits of `TOKEN_*` by id. */
  flags: Uint8Array,
  tokenSlots: Int32Array,
  pairSlots: Int32Array,
  /** Id of each single byte. */
  byteIds: Int32Array,
} as const;
export const TABLE_NAMES = Object.keys(TABLE_TYPES) as (keyof BpeTables)[];

/** Flag: the id exists. */
export const TOKEN_PRESENT = 1;
/** Flag: the token is not spelled in the byte alphabet, so its bytes are its plain text and no merge leads to it. */
export const TOKEN_PLAIN = 2;
/** Flag: the token is left out of text when special tokens are skipped. */
export const TOKEN_SPECIAL = 4;

/** Flag: the token was added to the vocabulary. Only set in the `TokenTables` of general tokenizers. */
export const TOKEN_ADDED = 8;

/** Tokens of a vocabulary, without merges. */
export interface TokenTables {
  readonly blob: Uint8Array;
  readonly starts: Uint32Array;
  readonly lengths: Uint16Array | Uint32Array;
  readonly flags: Uint8Array;
  readonly tokenSlots: Int32Array;
}

/** Returns the slot of a pair of ids before probing. `mask` is the number of slots less one. */
function pairSlot(left: number, right: number, mask: number): number {
  const mixed = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca77);
  return (mixed ^ (mixed >>> 15)) & mask;
}

/** Returns the hash of `bytes[start .. end)`, mixed so that its low bits can pick a slot. */
function hashBytes(bytes: Uint8Array, start: number, end: number): number {
  const hash = fnv1aOfBytes(bytes, start, end);
  return hash ^ (hash >>> 15);
}

/** Returns the index into `pairSlots` of the merge of `left` and `right`, or -1. */
export function findPair(pairSlots: Int32Array, left: number, right: number): number {
  const mask = (pairSlots.length >> 2) - 1;
  for (let slot = pairSlot(left, right, mask); ; slot = (slot + 1) & mask) {
    const at = slot << 2;
    const found = pairSlots[at]!;
    if (found === left && pairSlots[at + 1] === right) return at;
    if (found < 0) return -1;
  }
}

/** Returns the id of the token `bytes[start .. end)`, or -1. */
export function findToken(tables: TokenTables, bytes: Uint8Array, start: number, end: number): number {
  const { tokenSlots, starts, lengths, blob } = tables;
  const mask = tokenSlots.length - 1;
  const length = end - start;
  for (let slot = hashBytes(bytes, start, end) & mask; ; slot = (slot + 1) & mask) {
    const id = tokenSlots[slot]!;
    if (id < 0) return -1;
    if (lengths[id] !== length) continue;
    const from = starts[id]!;
    let same = 0;
    while (same < length && blob[from + same] === bytes[start + same]) same++;
    if (same === length) return id;
  }
}

/** Copies `tables` into memory that threads share. */
export function shareTables(tables: BpeTables): BpeTables {
  // The cast to one array type stands for all of them.
  const copies = TABLE_NAMES.map((name) => {
    return [name, shared(TABLE_TYPES[name] as typeof Uint8Array, tables[name] as Uint8Array)] as const;
  });
  return Object.fromEntries(copies) as unknown as BpeTables;
}

/** Allocates `length` elements in shared memory and copies `content` to the first of them. */
export function shared<T extends { readonly length: number; set(content: T): void }>(
  type: { readonly BYTES_PER_ELEMENT: number; new (buffer: SharedArrayBuffer): T },
  content: T,
  length = content.length,
): T {
  const array = new type(new SharedArrayBuffer(type.BYTES_PER_ELEMENT * length));
  array.set(content);
  return array;
}

/** Largest id that is accepted, four times the largest vocabularies in use: tables are sized by the largest id. */
export const TOKEN_ID_MAX = 1_048_575;

/** Vocabulary as read, in the order of the file. The arrays may be longer than `count`. */
export interface VocabularyEntries {
  readonly count: number;
  readonly idMax: number;
  readonly ids: Uint32Array;
  /** End of each token's bytes in `blob`; the first token begins at 0. */
  readonly ends: Uint32Array;
  /** 1 for tokens outside the byte alphabet. */
  readonly isPlain: Uint8Array;
  readonly blob: Uint8Array;
  readonly blobLength: number;
}

/**
 * Builds tables without merges. Returns undefined when a single byte is missing: then the vocabulary is not byte-level.
 */
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
 * Builds the pair table of merges.
 * @param ids left, right and merged id of each of `count` merges, in order of rank
 */
export function tabulatePairs(ids: Int32Array, count: number): Int32Array<ArrayBuffer> {
  const pairSlots = new Int32Array(4 * slotsFor(count)).fill(-1);
  const mask = (pairSlots.length >> 2) - 1;
  for (let rank = 0; rank < count; rank++) {
    const left = ids[3 * rank]!;
    const right = ids[3 * rank + 1]!;
    let at = findPair(pairSlots, left, right); // a merge listed twice has the rank of its last place
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

/**
 * Builds the slots for `findToken` and counts the distinct tokens. Among tokens of the same bytes, an added one is
 * found before the others, and a higher id before a lower one.
 */
export function hashSlotsOf(tables: Omit<TokenTables, 'tokenSlots'>): { slots: Int32Array; distinct: number } {
  const { blob, starts, lengths, flags } = tables;
  const slots = new Int32Array(slotsFor(flags.length)).fill(-1);
  const hashed = { ...tables, tokenSlots: slots };
  let distinct = 0;
  for (const kind of [TOKEN_PRESENT | TOKEN_ADDED, TOKEN_PRESENT]) {
    for (let id = flags.length - 1; id >= 0; id--) {
      const start = starts[id]!;
      const end = start + lengths[id]!;
      if ((flags[id]! & kind) !== kind || findToken(hashed, blob, start, end) >= 0) continue;
      insertToken(hashed, id, start, end);
      distinct++;
    }
  }
  return { slots, distinct };
}

function insertToken(tables: TokenTables, id: number, start: number, end: number): void {
  const mask = tables.tokenSlots.length - 1;
  let slot = hashBytes(tables.blob, start, end) & mask;
  while (tables.tokenSlots[slot]! >= 0) slot = (slot + 1) & mask;
  tables.tokenSlots[slot] = id;
}

/** Returns the number of slots of an open-addressing table that is at most 60 % full. */
function slotsFor(count: number): number {
  let slots = 16;
  while (slots * 0.6 < count) slots *= 2;
  return slots;
}
