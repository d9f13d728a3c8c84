import { decodeRecord, encodeRecord, type RecordCodec } from '../record-codec.ts';

/*
 * One message (runtime-and-workers.md, sections 3.3 and 3.4), as multipart frames:
 *
 *   [topic] [publisher id: u64 BE] [sequence: u64 BE] [version: u8 = 1 | length: u32 BE | envelope record]
 *
 * The envelope repeats topic, publisher and sequence; the binary frames are what counts, as they are exact in every codec.
 * Its payload is a record of the same codec: bytes in msgpack, an array of byte values in JSON.
 */

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

export function encodeEnvelope(codec: RecordCodec, event: OutgoingEvent): EnvelopeFrames {
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
  const envelope = encodeRecord(codec, record);
  const body = Buffer.allocUnsafe(HEADER_BYTES + envelope.length);
  body[0] = VERSION;
  body.writeUInt32BE(envelope.length, 1);
  body.set(envelope, HEADER_BYTES);
  return { publisherId: u64Bytes(publisherId), sequence: u64Bytes(BigInt(event.sequence)), body };
}

/** Reads a message in either codec. Throws when it is not one. */
export function decodeEnvelope(topic: string, frames: EnvelopeFrames): OutgoingEvent {
  const { body } = frames;
  if (body[0] !== VERSION || body.length < HEADER_BYTES || body.readUInt32BE(1) !== body.length - HEADER_BYTES) {
    throw new RangeError('an event frame with a wrong header');
  }
  if (frames.publisherId.length !== 8 || frames.sequence.length !== 8)
    throw new RangeError('event ids of a wrong length');
  const codec: RecordCodec = body[HEADER_BYTES] === JSON_OPENING ? 'json' : 'msgpack';
  const record = decodeRecord(codec, body, HEADER_BYTES, body.length) as { published_at?: unknown; payload?: unknown };
  const payload = Buffer.from(record.payload as Uint8Array | number[]); // throws for anything else
  return {
    topic,
    publisherId: frames.publisherId.readBigUInt64BE().toString(16),
    sequence: Number(frames.sequence.readBigUInt64BE()),
    publishedAtMs: Number(record.published_at),
    payload: decodeRecord(codec, payload, 0, payload.length),
  };
}
