import { createHash, randomBytes } from 'node:crypto';
import { closeSync, constants, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { endianness } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { isPackedAddedTokens } from '../added-tokens.ts';
import type { ScannedTokenizer } from './build-tables.ts';
import { type BpeTables, TABLE_NAMES, TABLE_TYPES } from './tables.ts';

/**
 * Version of the layout and meaning of the tables, changed with either. It includes the byte order, on which the tables
 * depend.
 */
const VERSION = `4 ${endianness()}`;
const SUM_BYTES = 32;
/** Size of the checksum and of the JSON length behind it. */
const HEAD_BYTES = SUM_BYTES + 4;
const FILE_BYTES_MAX = 1 << 30;
/** Bytes that are read and hashed in one turn of the event loop. */
const CHUNK_BYTES = 256 << 10;

/** File that keeps a tokenizer's tables. */
export interface PreparedFile {
  readonly path: string;
  /** SHA-256 of the tokenizer file that the tables were made from, in hex. */
  readonly source: string;
}

/**
 * Packs the tables of a tokenizer as they lie in memory, so that opening the file parses no vocabulary and makes no
 * object for each token:
 *
 *     SHA-256 of the rest | bytes of the JSON u32 | {version, source, rest, addedTokens, counts} as JSON
 *     | tables, each from a multiple of 8
 */
export function packTokenizer(
  { tables, rest, addedTokens }: ScannedTokenizer & { readonly tables: BpeTables },
  source: string,
): Buffer {
  const counts = TABLE_NAMES.map((name) => tables[name].length);
  const json = Buffer.from(JSON.stringify({ version: VERSION, source, rest: rest ?? null, addedTokens, counts }));
  const starts = startsOf(json.length, counts);
  const file = Buffer.alloc(starts.at(-1)!);
  file.writeUInt32LE(json.length, SUM_BYTES);
  file.set(json, HEAD_BYTES);
  for (const [at, name] of TABLE_NAMES.entries()) {
    const { buffer, byteOffset, byteLength } = tables[name];
    file.set(new Uint8Array(buffer, byteOffset, byteLength), starts[at]);
  }
  file.set(createHash('sha256').update(file.subarray(SUM_BYTES)).digest());
  return file;
}

/** Returns the offset of each table, and the end of the last one. */
function startsOf(jsonBytes: number, counts: readonly number[]): readonly number[] {
  const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8;
  const starts = [aligned(HEAD_BYTES + jsonBytes)];
  for (const [at, name] of TABLE_NAMES.entries()) {
    starts.push(starts[at]! + aligned(counts[at]! * TABLE_TYPES[name].BYTES_PER_ELEMENT));
  }
  return starts;
}

/**
 * Reads the tables that `writePrepared` kept, into memory that threads share. Returns undefined when there is no file,
 * or when it is damaged, of another version or made from another tokenizer file. Hashes the file in pieces, so that it
 * does not block the event loop.
 */
export async function readPrepared({ path, source }: PreparedFile): Promise<ScannedTokenizer | undefined> {
  // the caller then makes it anew
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    const { size } = await handle.stat();
    if (size < HEAD_BYTES || size > FILE_BYTES_MAX) return undefined;
    const bytes = new Uint8Array(new SharedArrayBuffer(size));
    const sum = createHash('sha256');
    for (let at = 0; at < size; ) {
      const { bytesRead } = await handle.read(bytes, at, Math.min(CHUNK_BYTES, size - at), at);
      if (bytesRead === 0) return undefined;
      sum.update(bytes.subarray(Math.max(at, SUM_BYTES), at + bytesRead));
      at += bytesRead;
    }
    return sum.digest().equals(bytes.slice(0, SUM_BYTES)) ? await unpack(bytes, source) : undefined;
  } finally {
    await handle.close();
  }
}

/**
 * Keeps the tables for `readPrepared`. Readers see either the whole file or no file. Throws if the file cannot be
 * written.
 */
export function writePrepared({ path, source }: PreparedFile, { tables, ...scanned }: ScannedTokenizer): void {
  if (tables === undefined) return;
  const temporary = `${path}.tmp-${randomBytes(8).toString('hex')}`;
  const file = openSync(temporary, 'wx', 0o600);
  try {
    const bytes = packTokenizer({ ...scanned, tables }, source);
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

async function unpack(file: Uint8Array, source: string): Promise<ScannedTokenizer | undefined> {
  try {
    const buffer = file.buffer as ArrayBuffer; // it may be a SharedArrayBuffer, which is read in the same way
    const jsonBytes = new DataView(buffer).getUint32(SUM_BYTES, true);
    const json = Buffer.from(file.slice(HEAD_BYTES, HEAD_BYTES + jsonBytes)).toString();
    const { version, source: made, rest, addedTokens, counts } = JSON.parse(json) as Readonly<Record<string, unknown>>;
    if (version !== VERSION || made !== source || !Array.isArray(counts)) return undefined;
    if (addedTokens !== undefined && !isPackedAddedTokens(addedTokens)) return undefined;
    const starts = startsOf(jsonBytes, counts);
    const parts = TABLE_NAMES.map(
      (name, at) => [name, new TABLE_TYPES[name](buffer, starts[at], Number(counts[at]))] as const,
    );
    const tables = Object.fromEntries(parts) as unknown as BpeTables;
    return (await isSound(tables)) ? { rest: rest ?? undefined, tables, addedTokens } : undefined;
  } catch {
    return undefined; // an older layout: the JSON is broken, or tables lie outside the file
  }
}

/** Checks that lookups in the tables terminate and stay in bounds. The file's content is not trusted beyond that. */
async function isSound(tables: BpeTables): Promise<boolean> {
  const { starts, lengths, flags, tokenSlots, pairSlots, byteIds } = tables;
  const tokens = flags.length;
  if (starts.length !== tokens || lengths.length !== tokens || byteIds.length !== 256) return false;
  if (!isPowerOfTwo(tokenSlots.length) || !isPowerOfTwo(pairSlots.length / 4)) return false;
  for (let from = 0; from < tokens; from += SLICE) {
    if (!areInside(tables, from, Math.min(from + SLICE, tokens))) return false;
    await setImmediate();
  }
  return (await hasSoundSlots(tokenSlots, 1, tokens)) && (await hasSoundSlots(pairSlots, 4, tokens));
}

/** Entries that are checked in one turn of the event loop. */
const SLICE = 1 << 17;

function areInside({ blob, starts, lengths }: BpeTables, from: number, end: number): boolean {
  for (let id = from; id < end; id++) if (starts[id]! + lengths[id]! > blob.length) return false;
  return true;
}

/** Checks the slots of one hash table. @param width numbers for each slot: an id, or two ids, a rank and an id */
async function hasSoundSlots(slots: Int32Array, width: 1 | 4, tokens: number): Promise<boolean> {
  let isEmpty = false; // whether some slot is empty, where a lookup ends
  for (let from = 0; from < slots.length; from += SLICE) {
    const end = Math.min(from + SLICE, slots.length);
    for (let at = from; at < end; at += width) {
      if (slots[at]! < 0) isEmpty = true;
      else if (slots[at]! >= tokens) return false;
      else if (width > 1 && (slots[at + 1]! >= tokens || slots[at + 3]! >= tokens)) return false;
    }
    await setImmediate();
  }
  return isEmpty;
}

function isPowerOfTwo(value: number): boolean {
  return Number.isInteger(value) && value > 0 && (value & (value - 1)) === 0;
}
