import { isRecord, parseExact } from '../../records/index.ts';

/**
 * Longest message in JSON that is read, because it is read in one turn of the event loop. Older publishers of Dynamo
 * write JSON on NATS, newer ones msgpack.
 */
export const JSON_BYTES_MAX = 256 << 10;

const BRACE = '{'.charCodeAt(0);
const BYTE_MAX = 255;

/** Whether the message is JSON. No msgpack record begins with that byte, which there is a number. */
export function isJsonRecord(bytes: Uint8Array, start: number): boolean {
  return bytes[start] === BRACE;
}

/**
 * Reads an envelope in JSON, whose payload is a list of the bytes of another JSON text. Integers above 2^53 of the
 * payload become bigints. Throws if it is not one.
 *
 * @returns the fields of the envelope, with the decoded payload
 */
export function readJsonEnvelope(bytes: Buffer): Readonly<Record<string, unknown>> {
  if (bytes.length > JSON_BYTES_MAX) throw new RangeError(`an event in JSON of ${bytes.length} bytes`);
  const record: unknown = JSON.parse(bytes.toString()); // its own numbers are below 2^53
  if (!isRecord(record)) throw new RangeError('an event that is not a record');
  return { ...record, payload: parseExact(textOf(record.payload)) };
}

function textOf(payload: unknown): string {
  if (!Array.isArray(payload)) throw new RangeError('an event whose payload is not bytes');
  const bytes = Buffer.alloc(payload.length);
  for (let at = 0; at < payload.length; at++) {
    const byte: unknown = payload[at];
    if (!Number.isInteger(byte) || (byte as number) < 0 || (byte as number) > BYTE_MAX)
      throw new RangeError('an event whose payload is not bytes');
    bytes[at] = byte as number;
  }
  return bytes.toString();
}
