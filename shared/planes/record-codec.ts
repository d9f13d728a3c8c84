import { Packr, Unpackr } from 'msgpackr';

// Records are msgpack: plain maps, so that any reader understands them; 64-bit integers beyond 2^53 stay exact
// (bigint). `skipValues` leaves out undefined fields as JSON does (missing from the library's types).
const packr = new Packr({ useRecords: false, variableMapSize: true, ...{ skipValues: [undefined] } });
const reading = {
  useRecords: false,
  mapsAsObjects: true,
  int64AsType: 'auto' as 'number', // bigint only if a number would be inexact; missing from the library's types, too
};
/** Copies bytes out, because the buffers of connections are reused. */
const unpackr = new Unpackr({ ...reading, copyBuffers: true });
const viewingUnpackr = new Unpackr({ ...reading, copyBuffers: false });

/** Returns the bytes of one record. */
export function encodeRecord(value: unknown): Uint8Array {
  return packr.pack(value);
}

/** Returns the record in `bytes[start .. end)`. Throws if it is not exactly one record. */
export function decodeRecord(bytes: Buffer, start: number, end: number): unknown {
  if (start === end) throw new RangeError('empty msgpack record'); // the library reads `end: 0` as "no end"
  return unpackr.unpack(bytes, { start, end });
}

/**
 * Works like `decodeRecord` for a buffer that is never written again: byte strings of the record are views of it, which
 * keep it alive.
 */
export function decodeKeptRecord(bytes: Buffer, start: number, end: number): unknown {
  if (start === end) throw new RangeError('empty msgpack record');
  return viewingUnpackr.unpack(bytes, { start, end });
}

/** A record that other bytes may follow. */
export interface LeadingRecord {
  readonly value: unknown;
  /** Offset at which the record ends in its buffer. */
  readonly end: number;
}

/** Reads the record at the start of `bytes[start .. end)`; binary may follow it, beginning with a zero byte. */
export function decodeLeadingRecord(bytes: Buffer, start: number, end: number): LeadingRecord {
  let leading: LeadingRecord | undefined;
  unpackr.unpackMultiple(bytes.subarray(start, end), (value: unknown, _from?: number, to?: number) => {
    leading = { value, end: start + (to ?? 0) };
    return false;
  });
  if (leading === undefined) throw new RangeError('empty msgpack record');
  return leading;
}

/** Length from which byte strings are separate pieces. */
const PIECE_BYTES_MIN = 64 << 10;
/** Number of values of a record that are searched for large byte strings, which come early if there are any. */
const LOOKED_AT_MAX = 256;
const DEPTH_MAX = 16;

const BIN_32 = 0xc6;

/** Bytes of one record, in order: one run, or several if large byte strings are separate pieces. */
export type RecordPieces = readonly Uint8Array[];

interface PiecesOptions {
  /**
   * Whether the byte strings of the record are never written again, so that large ones are passed on as they are;
   * otherwise they are copied.
   */
  readonly isKept: boolean;
}

/** Works like `encodeRecord`, but copies large byte strings at most once. */
export function encodePieces(value: unknown, { isKept }: PiecesOptions): RecordPieces {
  if (!holdsLarge(value, { left: LOOKED_AT_MAX }, DEPTH_MAX)) return [encodeRecord(value)];
  const pieces: Uint8Array[] = [];
  writePieces(pieces, value, isKept, DEPTH_MAX);
  return pieces;
}

/** Number of bytes of all pieces. */
export function bytesOf(pieces: RecordPieces): number {
  let bytes = 0;
  for (const { length } of pieces) bytes += length;
  return bytes;
}

/** Appends `value`: lists and objects that contain something large are walked, everything else is packed as usual. */
function writePieces(pieces: Uint8Array[], value: unknown, isKept: boolean, depth: number): void {
  if (!holdsLarge(value, { left: Number.POSITIVE_INFINITY }, depth)) pieces.push(encodeRecord(value));
  else if (value instanceof Uint8Array) pieces.push(binHeader(value.length), isKept ? value : Buffer.from(value));
  else if (Array.isArray(value)) {
    pieces.push(header(value.length, LIST));
    for (const each of value) writePieces(pieces, each, isKept, depth - 1);
  } else {
    const entries = Object.entries(value as object).filter(([, each]) => each !== undefined);
    pieces.push(header(entries.length, MAP));
    for (const [key, each] of entries) {
      pieces.push(encodeRecord(key));
      writePieces(pieces, each, isKept, depth - 1);
    }
  }
}

/** Whether `value` contains a large byte string, as far as the search goes: in lists and plain objects. */
function holdsLarge(value: unknown, looks: { left: number }, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Uint8Array) return value.length >= PIECE_BYTES_MIN;
  if (depth === 0) return false;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      if (looks.left-- <= 0) return false;
      if (holdsLarge(value[at], looks, depth - 1)) return true;
    }
    return false;
  }
  if (!isPlain(value)) return false;
  for (const key in value) {
    if (looks.left-- <= 0) return false;
    if (holdsLarge((value as Record<string, unknown>)[key], looks, depth - 1)) return true;
  }
  return false;
}

/** An instance of a class may define how it is written. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || prototype === null) && !('toJSON' in value);
}

/** First bytes of a list or map: of up to 15 entries, of up to 65,535, of more. */
const LIST = [0x90, 0xdc, 0xdd] as const;
const MAP = [0x80, 0xde, 0xdf] as const;

function header(entries: number, [short, medium, long]: typeof LIST | typeof MAP): Uint8Array {
  if (entries < 16) return Uint8Array.of(short | entries);
  if (entries < 1 << 16) return Uint8Array.of(medium, entries >>> 8, entries);
  return Uint8Array.of(long, entries >>> 24, entries >>> 16, entries >>> 8, entries);
}

function binHeader(length: number): Uint8Array {
  return Uint8Array.of(BIN_32, length >>> 24, length >>> 16, length >>> 8, length);
}
