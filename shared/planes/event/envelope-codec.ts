import { decodeKeptRecord, encodeRecord, type RecordCodec } from '../record-codec.ts';

/*
 * One message is an envelope record: topic, publisher, sequence and time, and
 * a payload that is itself a record of the same codec: bytes in msgpack, an array of byte values in JSON. NATS carries the
 * bare record; ZeroMQ multipart frames around it:
 *
 *   [topic] [publisher id: u64 BE] [sequence: u64 BE] [version: u8 = 1 | length: u32 BE | envelope record]
 *
 * There the binary frames are what counts, as they are exact in every codec.
 */

/** Longest message that is read: the blocks of one engine step over a million tokens fit. */
export const EVENT_BYTES_MAX = 4 << 20;

const VERSION = 1;
const HEADER_BYTES = 5;
const JSON_OPENING = 0x7b; // '{'; a msgpack map never starts so

/** The frames of one message behind its topic. */
export interface EnvelopeFrames {
  readonly publisherId: Buffer;
  readonly sequence: Buffer;
  readonly body: Buffer;
}

/** What a message says; `payload` is decoded. */
export interface OutgoingEvent {
  readonly topic: string;
  /** Hex, at most 64 bits. */
  readonly publisherId: string;
  readonly sequence: number;
  readonly publishedAtMs: number;
  readonly payload: unknown;
}

/** 64 bits as eight bytes, big-endian. */
export function u64Bytes(value: bigint): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}

/** The envelope record alone. */
export function encodeEnvelopeRecord(codec: RecordCodec, event: OutgoingEvent): Uint8Array {
  const publisherId = BigInt(`0x${event.publisherId}`);
  const payload = encodeRecord(codec, event.payload);
  // Integers beyond 32 bits would leave msgpack as floating point if they were numbers here.
  const record =
    codec === 'msgpack'
      ? {
          topic: event.topic,
          publisher_id: publisherId,
          sequence: event.sequence,
          published_at: BigInt(event.publishedAtMs),
          payload,
        }
      : {
          topic: event.topic,
          publisher_id: Number(publisherId), // at most 2^53 - 1 by agreement
          sequence: event.sequence,
          published_at: event.publishedAtMs,
          payload: [...payload],
        };
  return encodeRecord(codec, record);
}

export function encodeEnvelope(codec: RecordCodec, event: OutgoingEvent): EnvelopeFrames {
  const envelope = encodeEnvelopeRecord(codec, event);
  const body = Buffer.allocUnsafe(HEADER_BYTES + envelope.length);
  body[0] = VERSION;
  body.writeUInt32BE(envelope.length, 1);
  body.set(envelope, HEADER_BYTES);
  return { publisherId: u64Bytes(BigInt(`0x${event.publisherId}`)), sequence: u64Bytes(BigInt(event.sequence)), body };
}

/** Reads a message in either codec. Throws when it is not one. */
export function decodeEnvelope(topic: string, frames: EnvelopeFrames): OutgoingEvent {
  const { body } = frames;
  if (body[0] !== VERSION || body.length < HEADER_BYTES || body.readUInt32BE(1) !== body.length - HEADER_BYTES) {
    throw new RangeError('an event frame with a wrong header');
  }
  if (frames.publisherId.length !== 8 || frames.sequence.length !== 8)
    throw new RangeError('event ids of a wrong length');
  const { publishedAtMs, payload } = readRecord(body, HEADER_BYTES);
  return {
    topic,
    publisherId: frames.publisherId.readBigUInt64BE().toString(16),
    sequence: Number(frames.sequence.readBigUInt64BE()),
    publishedAtMs,
    payload,
  };
}

/** Reads a bare envelope record in either codec. Throws when it is not one. */
export function decodeEnvelopeRecord(topic: string, bytes: Buffer): OutgoingEvent {
  const { publisherId, sequence, publishedAtMs, payload } = readRecord(bytes, 0);
  if (!isId(publisherId) || !isId(sequence)) throw new RangeError('an event without publisher or sequence');
  return { topic, publisherId: publisherId.toString(16), sequence: Number(sequence), publishedAtMs, payload };
}

interface RecordContents {
  readonly publisherId: unknown;
  readonly sequence: unknown;
  readonly publishedAtMs: number;
  readonly payload: unknown;
}

function readRecord(bytes: Buffer, start: number): RecordContents {
  const codec: RecordCodec = bytes[start] === JSON_OPENING ? 'json' : 'msgpack';
  const record = decodeKeptRecord(codec, bytes, start, bytes.length) as Readonly<Record<string, unknown>>;
  const payload = bytesOf(record.payload);
  return {
    publisherId: record.publisher_id,
    sequence: record.sequence,
    publishedAtMs: Number(record.published_at),
    payload: decodeKeptRecord(codec, payload, 0, payload.length),
  };
}

/** Nothing else is believed: of any object with a `length`, Node would make that many bytes. */
function bytesOf(payload: unknown): Buffer {
  if (Buffer.isBuffer(payload)) return payload;
  if (Array.isArray(payload)) return Buffer.from(payload);
  throw new RangeError('an event whose payload is no bytes');
}

function isId(value: unknown): value is number | bigint {
  return typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value));
}
