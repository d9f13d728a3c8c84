import { createHash, randomBytes } from 'node:crypto';
import { closeSync, constants, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { ScannedTokenizer } from './build-tables.ts';
import type { BpeTables } from './tables.ts';

/** Changes with every change of the layout or of what the tables mean. */
const VERSION = 1;
/** Read back as another number on a machine of the other byte order, for which the tables are of no use. */
const BYTE_ORDER = 0x5354_4f52;
const SUM_BYTES = 32;
const SECTIONS = ['blob', 'starts', 'lengths', 'flags', 'tokenSlots', 'pairSlots', 'byteIds', 'rest'] as const;
/** Byte order, version, two checksums, and where each section is. */
const HEADER_BYTES = 8 + 2 * SUM_BYTES + 8 * SECTIONS.length;
const BODY_SUM_AT = 8 + SUM_BYTES;
const ALIGNMENT = 8;
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
 *     byte order u32 | version u32 | SHA-256 of the tokenizer file | SHA-256 of the body | {start u32, bytes u32} a section
 *     body: the sections, each from a multiple of 8; the last one is the JSON of what is no table
 */
export function packTokenizer(
  { tables, rest }: ScannedTokenizer & { readonly tables: BpeTables },
  source: string,
): Buffer {
  const json = Buffer.from(JSON.stringify(rest ?? null));
  const parts = SECTIONS.map((name) => (name === 'rest' ? json : bytesOf(tables[name])));
  const starts: number[] = [];
  let end = HEADER_BYTES;
  for (const part of parts) {
    starts.push(end);
    end += Math.ceil(part.length / ALIGNMENT) * ALIGNMENT;
  }
  const file = Buffer.alloc(end);
  const words = new Uint32Array(file.buffer, file.byteOffset, HEADER_BYTES / 4);
  words.set([BYTE_ORDER, VERSION]);
  file.write(source, 8, 'hex');
  const table = (BODY_SUM_AT + SUM_BYTES) / 4;
  parts.forEach((part, at) => {
    words.set([starts[at]!, part.length], table + 2 * at);
    file.set(part, starts[at]!);
  });
  file.set(
    createHash('sha256')
      .update(file.subarray(BODY_SUM_AT + SUM_BYTES))
      .digest(),
    BODY_SUM_AT,
  );
  return file;
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
    if (size < HEADER_BYTES || size > FILE_BYTES_MAX) return undefined;
    const bytes = new Uint8Array(new SharedArrayBuffer(size));
    const sum = createHash('sha256');
    for (let at = 0; at < size; ) {
      const { bytesRead } = await handle.read(bytes, at, Math.min(CHUNK_BYTES, size - at), at);
      if (bytesRead === 0) return undefined;
      sum.update(bytes.subarray(Math.max(at, BODY_SUM_AT + SUM_BYTES), at + bytesRead));
      at += bytesRead;
    }
    return unpack(bytes, source, sum.digest('hex'));
  } finally {
    await handle.close();
  }
}

/** Keeps the tables for `readPrepared`. Whoever reads meanwhile sees all of the file or none. Throws where it cannot be written. */
export function writePrepared({ path, source }: PreparedFile, { rest, tables }: ScannedTokenizer): void {
  if (tables === undefined) return;
  const temporary = `${path}.tmp-${randomBytes(8).toString('hex')}`;
  const file = openSync(temporary, 'wx', 0o600);
  try {
    const bytes = packTokenizer({ rest, tables }, source);
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

function unpack(file: Uint8Array, source: string, bodySum: string): ScannedTokenizer | undefined {
  const words = new Uint32Array(file.buffer, 0, HEADER_BYTES / 4);
  const hex = (at: number): string => Buffer.from(file.slice(at, at + SUM_BYTES)).toString('hex');
  if (words[0] !== BYTE_ORDER || words[1] !== VERSION || hex(8) !== source || hex(BODY_SUM_AT) !== bodySum)
    return undefined;
  const table = (BODY_SUM_AT + SUM_BYTES) / 4;
  const places = SECTIONS.map((_, at) => ({ start: words[table + 2 * at]!, length: words[table + 2 * at + 1]! }));
  const isInside = places.every(({ start, length }) => start % ALIGNMENT === 0 && start + length <= file.length);
  if (!isInside || places.some(({ length }, at) => length % WIDTHS[at]! !== 0)) return undefined;
  const [blob, starts, lengths, flags, tokenSlots, pairSlots, byteIds, rest] = places;
  const words32 = ({ start, length }: Place): Int32Array<ArrayBufferLike> =>
    new Int32Array(file.buffer, start, length / 4);
  const tables: BpeTables = {
    blob: file.subarray(blob!.start, blob!.start + blob!.length),
    starts: new Uint32Array(file.buffer, starts!.start, starts!.length / 4),
    lengths: new Uint16Array(file.buffer, lengths!.start, lengths!.length / 2),
    flags: file.subarray(flags!.start, flags!.start + flags!.length),
    tokenSlots: words32(tokenSlots!),
    pairSlots: words32(pairSlots!),
    byteIds: words32(byteIds!),
  };
  if (!isSound(tables)) return undefined;
  const json = Buffer.from(file.slice(rest!.start, rest!.start + rest!.length)).toString();
  return { rest: JSON.parse(json) ?? undefined, tables };
}

interface Place {
  readonly start: number;
  readonly length: number;
}

/** Bytes of an element of each section. */
const WIDTHS = [1, 4, 2, 1, 4, 4, 4, 1];

/** Whether look-ups end and stay inside: what a file says is believed no further than that. */
function isSound({ blob, starts, lengths, flags, tokenSlots, pairSlots, byteIds }: BpeTables): boolean {
  const tokens = flags.length;
  if (starts.length !== tokens || lengths.length !== tokens || byteIds.length !== 256) return false;
  if (!isPowerOfTwo(tokenSlots.length) || !isPowerOfTwo(pairSlots.length / 4)) return false;
  for (let id = 0; id < tokens; id++) if (starts[id]! + lengths[id]! > blob.length) return false;
  let emptySlots = 0;
  for (const id of tokenSlots) {
    if (id >= tokens) return false;
    if (id < 0) emptySlots++;
  }
  let emptyPairs = 0;
  for (let at = 0; at < pairSlots.length; at += 4) {
    if (pairSlots[at]! < 0) emptyPairs++;
    else if (pairSlots[at]! >= tokens || pairSlots[at + 1]! >= tokens || pairSlots[at + 3]! >= tokens) return false;
  }
  return emptySlots > 0 && emptyPairs > 0;
}

function isPowerOfTwo(value: number): boolean {
  return Number.isInteger(value) && value > 0 && (value & (value - 1)) === 0;
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint8Array | Uint16Array | Uint32Array | Int32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
