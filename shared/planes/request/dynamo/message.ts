import { workerError } from '../../../errors/index.ts';
import { bytesOf, type RecordPieces } from '../../record-codec.ts';
import type { RecordRules } from './record-cutter.ts';
import { WireFault } from './wire-fault.ts';

/*
 * A request on a connection to a worker, and the acknowledgements that come back in the same order; big-endian:
 *
 *     | u16 length | path of the endpoint | u16 length | headers, JSON | u32 length | payload |
 *     | u32 length | empty if the request is accepted, otherwise the reason as text |
 *
 * The payload is a message of two parts: the control record in JSON, and the request in the codec of the worker.
 */

const U16_MAX = 0xffff;
/** Longest accepted acknowledgement: a reason as text. */
const ACK_BYTES_MAX = 64 << 10;

/** Parts of a request message. */
interface RequestMessage {
  /** Path of the endpoint: the address of its record after the first slash. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Pieces that are not written again. */
  readonly payload: RecordPieces;
}

/**
 * Returns the bytes of a request.
 * @param bytesMax longest message, in bytes (`DYN_TCP_MAX_MESSAGE_SIZE`)
 * @throws ServeError `PayloadTooLarge`
 */
export function requestMessage({ path, headers, payload }: RequestMessage, bytesMax: number): RecordPieces {
  const pathBytes = Buffer.from(path);
  const headerBytes = Buffer.from(JSON.stringify(headers));
  const payloadBytes = bytesOf(payload);
  const total = 8 + pathBytes.length + headerBytes.length + payloadBytes;
  if (pathBytes.length > U16_MAX || headerBytes.length > U16_MAX || total > bytesMax) {
    throw workerError('PayloadTooLarge', `request of ${total} bytes; the limit is ${bytesMax}`);
  }
  const first = Buffer.allocUnsafeSlow(8 + pathBytes.length + headerBytes.length);
  let at = first.writeUInt16BE(pathBytes.length, 0);
  at += pathBytes.copy(first, at);
  at = first.writeUInt16BE(headerBytes.length, at);
  at += headerBytes.copy(first, at);
  first.writeUInt32BE(payloadBytes, at);
  return [first, ...payload];
}

/** Rules of the stream of acknowledgements. @param taken called with the reason; empty = accepted */
export class AckRules implements RecordRules {
  readonly #taken: (reason: string) => void;

  constructor(taken: (reason: string) => void) {
    this.#taken = taken;
  }

  lengthAt(bytes: Buffer, at: number, end: number): number {
    if (end - at < 4) return 4;
    const length = bytes.readUInt32BE(at);
    if (length > ACK_BYTES_MAX) throw new WireFault(`an acknowledgement of ${length} bytes`);
    return 4 + length;
  }

  take(bytes: Buffer, start: number, end: number): void {
    this.#taken(bytes.toString('utf8', start + 4, end));
  }
}
