import type { RecordPieces } from '../../record-codec.ts';
import { bytesOf } from '../../record-codec.ts';
import type { RecordRules } from './record-cutter.ts';
import { WireFault } from './wire-fault.ts';

/*
 * A message of two parts, either of which may be empty; numbers are big-endian:
 *
 *     0                8              16         24
 *     | header length  | body length  | checksum | header | body |
 *
 * Debug builds of Dynamo write XXH3-64 of both parts as the checksum, and release builds write 0. Only debug builds
 * check it, so that any checksum is accepted here, too: TCP has its own.
 */

/** Bytes before the header of a message. */
export const TWO_PART_PREFIX_BYTES = 24;

/** Returns the bytes of a message. @param body pieces that are not written again */
export function twoPartMessage(header: Uint8Array, body: RecordPieces = []): RecordPieces {
  const first = Buffer.alloc(TWO_PART_PREFIX_BYTES + header.length);
  first.writeUInt32BE(header.length, 4);
  first.writeUIntBE(bytesOf(body), 10, 6);
  first.set(header, TWO_PART_PREFIX_BYTES);
  return [first, ...body];
}

/** Takes one message: its header is `bytes[headerStart .. bodyStart)`, its body `bytes[bodyStart .. end)`. */
type TakeTwoPart = (bytes: Buffer, headerStart: number, bodyStart: number, end: number, isKept: boolean) => void;

/** Rules of a stream of messages of two parts. */
export class TwoPartRules implements RecordRules {
  /** Longest accepted message with its prefix, in bytes. */
  messageBytesMax: number;
  readonly #take: TakeTwoPart;

  constructor(messageBytesMax: number, take: TakeTwoPart) {
    this.messageBytesMax = messageBytesMax;
    this.#take = take;
  }

  lengthAt(bytes: Buffer, at: number, end: number): number {
    if (end - at < TWO_PART_PREFIX_BYTES) return TWO_PART_PREFIX_BYTES;
    const total = TWO_PART_PREFIX_BYTES + lengthIn(bytes, at) + lengthIn(bytes, at + 8);
    if (total <= this.messageBytesMax) return total;
    throw new WireFault(`a message of ${total} bytes; the limit is ${this.messageBytesMax}`);
  }

  take(bytes: Buffer, start: number, end: number, isKept: boolean): void {
    const headerStart = start + TWO_PART_PREFIX_BYTES;
    this.#take(bytes, headerStart, headerStart + lengthIn(bytes, start), end, isKept);
  }
}

/** Returns a length of 64 bits. One above 2^53 is inexact, and always above every limit. */
function lengthIn(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at) * 0x1_0000_0000 + bytes.readUInt32BE(at + 4);
}
