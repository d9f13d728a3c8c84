import { Packr, Unpackr } from 'msgpackr';

/** How the records inside frames are written (`DYN_REQUEST_PLANE_CODEC`). JSON cannot carry bytes. */
export type RecordCodec = 'msgpack' | 'json';

export const RECORD_CODECS: readonly RecordCodec[] = ['msgpack', 'json'];

// Plain maps, so that any msgpack reader understands them; 64-bit integers beyond 2^53 stay exact (bigint). `skipValues` leaves out undefined fields as JSON does (missing from the
// library's types).
const packr = new Packr({ useRecords: false, variableMapSize: true, ...{ skipValues: [undefined] } });
const reading = {
  useRecords: false,
  mapsAsObjects: true,
  int64AsType: 'auto' as 'number', // bigint only where a number would be inexact; missing from the library's types, too
};
/** Copies bytes out: the buffers of connections are used over and over. */
const unpackr = new Unpackr({ ...reading, copyBuffers: true });
const viewingUnpackr = new Unpackr({ ...reading, copyBuffers: false });

/** The bytes of one record. Throws a `TypeError` for what the codec cannot carry. */
export function encodeRecord(codec: RecordCodec, value: unknown): Uint8Array {
  return codec === 'msgpack' ? packr.pack(value) : Buffer.from(JSON.stringify(value, refuseBytes), 'utf8');
}

/** The record in `bytes[start .. end)`. Throws when it is not exactly one record. */
export function decodeRecord(codec: RecordCodec, bytes: Buffer, start: number, end: number): unknown {
  if (codec === 'json') return JSON.parse(bytes.toString('utf8', start, end));
  if (start === end) throw new RangeError('empty msgpack record'); // the library reads `end: 0` as "no end"
  return unpackr.unpack(bytes, { start, end });
}

/** `decodeRecord` of a buffer that is never written again: bytes of the record are views of it, which keep it alive. */
export function decodeKeptRecord(codec: RecordCodec, bytes: Buffer, start: number, end: number): unknown {
  if (codec === 'json' || start === end) return decodeRecord(codec, bytes, start, end);
  return viewingUnpackr.unpack(bytes, { start, end });
}

/** A record that other bytes may follow. */
export interface LeadingRecord {
  readonly value: unknown;
  /** Where the record ends in the buffer it was read from. */
  readonly end: number;
}

/** The record at the start of `bytes[start .. end)`; binary may follow it, beginning with a zero byte. */
export function decodeLeadingRecord(codec: RecordCodec, bytes: Buffer, start: number, end: number): LeadingRecord {
  if (codec === 'json') {
    // JSON text holds no raw zero byte, and the tail's count never reaches 2^24 within the frame limit.
    const zeroAt = bytes.subarray(start, end).indexOf(0);
    const recordEnd = zeroAt < 0 ? end : start + zeroAt;
    return { value: decodeRecord('json', bytes, start, recordEnd), end: recordEnd };
  }
  let leading: LeadingRecord | undefined;
  unpackr.unpackMultiple(bytes.subarray(start, end), (value: unknown, _from?: number, to?: number) => {
    leading = { value, end: start + (to ?? 0) };
    return false;
  });
  if (leading === undefined) throw new RangeError('empty msgpack record');
  return leading;
}

function refuseBytes(this: unknown, key: string, value: unknown): unknown {
  const original = (this as Record<string, unknown>)[key]; // before Buffer's own toJSON
  if (ArrayBuffer.isView(original)) throw new TypeError(`bytes in "${key}" need the msgpack codec`);
  return value;
}
