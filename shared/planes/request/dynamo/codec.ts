import { turnOfItsOwn } from '../../../concurrency/index.ts';
import { parseLargeJsonBody } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';
import { decodeKeptRecord, decodeRecord, encodeRecord, type RecordPieces } from '../../record-codec.ts';
import { LARGE_RECORD_BYTES, readSliced } from '../../sliced-record.ts';

/** Codec of the payloads of a worker, as its record names it. Workers of release 1.4 on write msgpack. */
export type DynamoCodec = 'json' | 'msgpack';

/**
 * Returns the bytes of a request or an answer. Members that are undefined are left out. Integers of type bigint become
 * numbers, and a `Uint32Array` becomes a list. Sixteen bytes are a UUID, which JSON has as text.
 */
export function encodePayload(codec: DynamoCodec, value: unknown): RecordPieces {
  if (codec === 'json') return [Buffer.from(jsonText(value))];
  return isRecord(value) ? msgpackPieces(value) : [encodeRecord(withWideIntegers(value))];
}

/**
 * Returns the value in `bytes[start .. end)`.
 * @param isKept whether the bytes are never written again, so that byte strings may be views of them
 * @throws Error if it is not one
 */
export function decodePayload(codec: DynamoCodec, bytes: Buffer, start: number, end: number, isKept = false): unknown {
  if (codec === 'json') return JSON.parse(bytes.toString('utf8', start, end));
  return isKept ? decodeKeptRecord(bytes, start, end) : decodeRecord(bytes, start, end);
}

/** Whether a payload takes more than a millisecond or two to decode, for which other streams would wait. */
export function isLargePayload(bytes: number): boolean {
  return bytes >= LARGE_RECORD_BYTES;
}

/** Works like `decodePayload`, one slice in each turn of the event loop. Rejects if it is not a value. */
export async function decodeLarge(codec: DynamoCodec, bytes: Buffer): Promise<unknown> {
  if (codec === 'msgpack') return readSliced(bytes);
  const { value, refusal } = await parseLargeJsonBody(bytes, turnOfItsOwn);
  if (refusal !== undefined) throw refusal;
  return value;
}

/** Returns a map whose list of token ids is written without an object for each of them. */
function msgpackPieces(value: Readonly<Record<string, unknown>>): RecordPieces {
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  const pieces: Uint8Array[] = [mapHeader(entries.length)];
  for (const [key, each] of entries) {
    pieces.push(encodeRecord(key), each instanceof Uint32Array ? idList(each) : encodeRecord(withWideIntegers(each)));
  }
  return pieces;
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

function mapHeader(entries: number): Uint8Array {
  return entries < 16 ? Uint8Array.of(0x80 | entries) : Uint8Array.of(0xde, entries >>> 8, entries);
}

const LIST_32 = 0xdd;
const U32 = 0xce;

/** Returns a list of ids, each as an integer of 32 bits. */
function idList(ids: Uint32Array): Uint8Array {
  const bytes = Buffer.allocUnsafeSlow(5 + 5 * ids.length);
  bytes[0] = LIST_32;
  bytes.writeUInt32BE(ids.length, 1);
  for (let at = 0, to = 5; at < ids.length; at++, to += 5) {
    const id = ids[at] as number; // in range
    bytes[to] = U32;
    bytes[to + 1] = id >>> 24;
    bytes[to + 2] = id >>> 16;
    bytes[to + 3] = id >>> 8;
    bytes[to + 4] = id;
  }
  return bytes;
}

/** Writes JSON as `JSON.stringify` does, and integers of type bigint as numbers. */
function jsonText(value: unknown): string {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (value instanceof Uint32Array) return `[${value.join(',')}]`;
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
