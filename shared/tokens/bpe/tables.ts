/**
 * A byte-level BPE vocabulary on typed arrays, so that 150,000 tokens and as many merges cost about 8 MB, are built in
 * another thread and handed over without a copy.
 *
 *     id ──> starts[id], lengths[id] ──> blob          bytes of the token
 *     bytes ──hash──> tokenSlots                       id, or -1 for an empty slot
 *     (left, right) ──hash──> pairSlots[4 * slot]      left (-1 = empty), right, rank, id of the merged token
 */
export interface BpeTables {
  readonly blob: Uint8Array<ArrayBuffer>;
  readonly starts: Uint32Array<ArrayBuffer>;
  readonly lengths: Uint16Array<ArrayBuffer>;
  /** Bits of `TOKEN_*` by id. */
  readonly flags: Uint8Array<ArrayBuffer>;
  readonly tokenSlots: Int32Array<ArrayBuffer>;
  readonly pairSlots: Int32Array<ArrayBuffer>;
  /** Id of each single byte. */
  readonly byteIds: Int32Array<ArrayBuffer>;
}

/** The id exists. */
export const TOKEN_PRESENT = 1;
/** The token is not spelled in the byte alphabet: its bytes are its plain text and no merge leads to it. */
export const TOKEN_PLAIN = 2;
/** Left out of text when special tokens are skipped. */
export const TOKEN_SPECIAL = 4;

/** Slot of a pair of ids before probing. `mask` is the number of slots less one. */
export function pairSlot(left: number, right: number, mask: number): number {
  const mixed = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca77);
  return (mixed ^ (mixed >>> 15)) & mask;
}

/** FNV-1a of `bytes[start .. end)`, mixed so that its low bits can pick a slot. */
export function hashBytes(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
  return hash ^ (hash >>> 15);
}

/** Index into `pairSlots` of the merge of `left` and `right`, or -1. */
export function findPair(pairSlots: Int32Array, left: number, right: number): number {
  const mask = (pairSlots.length >> 2) - 1;
  for (let slot = pairSlot(left, right, mask); ; slot = (slot + 1) & mask) {
    const at = slot << 2;
    const found = pairSlots[at]!;
    if (found === left && pairSlots[at + 1] === right) return at;
    if (found < 0) return -1;
  }
}

/** Id of the token `bytes[start .. end)`, or -1. */
export function findToken(tables: BpeTables, bytes: Uint8Array, start: number, end: number): number {
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

/** Every buffer of `tables`, for a transfer between threads. */
export function tableBuffers(tables: BpeTables): ArrayBuffer[] {
  return Object.values(tables).map((array: Uint8Array<ArrayBuffer>) => array.buffer);
}
