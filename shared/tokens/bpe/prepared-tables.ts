import { createHash, randomBytes } from 'node:crypto';
import { closeSync, constants, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { endianness } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { isPackedAddedTokens } from '../added-tokens.ts';
import type { ScannedTokenizer } from './build-tables.ts';
import { type BpeTables, TABLE_NAMES, TABLE_TYPES } from './tables.ts';

/** Changes with every change of the layout or of what the tables mean; tables are of no use to the other byte order. */
const VERSION = `4 ${endianness()}`;
const SUM_BYTES = 32;
/** The checksum, and the length of the JSON behind it. */
const HEAD_BYTES = SUM_BYTES + 4;
const FILE_BYTES_MAX = 1 << 30;
/** Read, and summed up, in one turn. */
const CHUNK_BYTES = 256 << 10;

/** A tokenizer's tables that are kept in a file. */
export interface PreparedFile {
  readonly path: string;
  /** SHA-256 of the tokenizer file that the tables were made from, in hex. */
  readonly source: string;
}

/**
 * The tables of a tokenizer as they lie in memory, so that opening it parses nothing and makes no object a token:
 *
 *     SHA-256 of what follows | bytes of the JSON u32 | {version, source, rest, addedTokens, counts} as JSON | tables, each from a multiple of 8
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

/** Where each table begins, and the end of the last. */
function startsOf(jsonBytes: number, counts: readonly number[]): readonly number[] {
  const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8;
  const starts = [aligned(HEAD_BYTES + jsonBytes)];
  for (const [at, name] of TABLE_NAMES.entries()) {
    starts.push(starts[at]! + aligned(counts[at]! * TABLE_TYPES[name].BYTES_PER_ELEMENT));
  }
  return starts;
}

/**
 * What `writePrepared` kept, in memory that threads share. Undefined when there is none, or when it is damaged, of another
 * version or made from another file. Sums the file up in pieces, so that it holds up nothing else.
 */
export async function readPrepared({ path, source }: PreparedFile): Promise<ScannedTokenizer | undefined> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => undefined); // then it is made anew
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

/** Keeps the tables for `readPrepared`. Whoever reads meanwhile sees all of the file or none. Throws where it cannot be written. */
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
    const buffer = file.buffer as ArrayBuffer; // or shared, which is read alike
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
    return undefined; // of an older layout: no JSON, or tables that lie outside of the file
  }
}

/** Whether look-ups end and stay inside: what a file says is believed no further than that. */
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

/** Entries that are looked at in one turn of the event loop. */
const SLICE = 1 << 17;

function areInside({ blob, starts, lengths }: BpeTables, from: number, end: number): boolean {
  for (let id = from; id < end; id++) if (starts[id]! + lengths[id]! > blob.length) return false;
  return true;
}

/** @param width numbers a slot: an id, or two, a rank and an id */
async function hasSoundSlots(slots: Int32Array, width: 1 | 4, tokens: number): Promise<boolean> {
  let isEmpty = false; // one of them: a look-up ends there
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
