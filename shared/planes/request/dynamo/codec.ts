import { turnOfItsOwn } from '../../../concurrency/index.ts';
import { parseExactRecord } from '../../../protocol/index.ts';
import { parseExact } from '../../../records/index.ts';
import { decodeKeptRecord, decodeRecord, encodeRecord, type RecordPieces } from '../../record-codec.ts';
import { LARGE_RECORD_BYTES, readSliced } from '../../sliced-record.ts';

/** Codec of the payloads of a worker, as its record names it. Workers of release 1.4 on write msgpack. */
export type DynamoCodec = 'json' | 'msgpack';

/**
 * Returns the bytes of a request or an answer. Members that are undefined are left out. Integers of type bigint become
 * numbers. Sixteen bytes are a UUID, which JSON has as text.
 */
export function encodePayload(codec: DynamoCodec, value: unknown): RecordPieces {
  return [codec === 'json' ? Buffer.from(jsonText(value)) : encodeRecord(withWideIntegers(value))];
}

/**
 * Returns the value in `bytes[start .. end)`. Integers beyond 2^53 become bigints.
 * @param isKept whether the bytes are never written again, so that byte strings may be views of them
 * @throws Error if it is not one
 */
export function decodePayload(codec: DynamoCodec, bytes: Buffer, start: number, end: number, isKept = false): unknown {
  if (codec === 'msgpack') return isKept ? decodeKeptRecord(bytes, start, end) : decodeRecord(bytes, start, end);
  return parseExact(bytes.toString('utf8', start, end));
}

/** Whether a payload takes more than a millisecond or two to decode, for which other streams would wait. */
export function isLargePayload(bytes: number): boolean {
  return bytes >= LARGE_RECORD_BYTES;
}

/**
 * Works like `decodePayload` for a list or a map, one slice in each turn of the event loop. Rejects if it is neither,
 * or has over 2^20 lists and maps, or entries of a list.
 */
export function decodeLarge(codec: DynamoCodec, bytes: Buffer): Promise<unknown> {
  return codec === 'msgpack' ? readSliced(bytes) : parseExactRecord(bytes, turnOfItsOwn);
}

/**
 * Returns `value` with integers beyond 32 bits as bigint. The library writes such numbers as floats, which Rust does
 * not read as an integer; it reads an integer where a float is due.
 */
function withWideIntegers(value: unknown): unknown {
  if (typeof value === 'number')
    return Math.abs(value) > U32_MAX && Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.some(isWide) ? value.map(withWideIntegers) : value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withWideIntegers(each)]));
}

function isWide(value: unknown): boolean {
  return (typeof value === 'object' && value !== null) || (typeof value === 'number' && Math.abs(value) > U32_MAX);
}

const U32_MAX = 0xffff_ffff;

/** Writes JSON as `JSON.stringify` does, and integers of type bigint as numbers. */
function jsonText(value: unknown): string {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (value instanceof Uint8Array) return bytesText(value);
  if (Array.isArray(value)) {
    return value.some(isWalked) ? `[${value.map(jsonText).join(',')}]` : JSON.stringify(value);
  }
  const members = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .map(([key, each]) => `${JSON.stringify(key)}:${jsonText(each)}`);
  return `{${members.join(',')}}`;
}

const UUID_BYTES = 16;
const UUID_PARTS = /^(.{8})(.{4})(.{4})(.{4})(.{12})$/;

/** Writes bytes as Dynamo's records have them in JSON: those of a UUID as its text, others as a list. */
function bytesText(bytes: Uint8Array): string {
  if (bytes.length !== UUID_BYTES) return `[${bytes.join(',')}]`;
  return JSON.stringify(Buffer.from(bytes).toString('hex').replace(UUID_PARTS, '$1-$2-$3-$4-$5'));
}

/** Whether `JSON.stringify` may not know how to write `value`. */
function isWalked(value: unknown): boolean {
  return typeof value === 'bigint' || (typeof value === 'object' && value !== null);
}
