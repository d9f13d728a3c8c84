import type { ByteWriter } from './byte-writer.ts';
import {
  CONNECTION_STREAM,
  FRAME_HEADER_BYTES,
  FrameError,
  FrameType,
  readU32,
  writeFrameHeader,
  writeU32,
} from './frame.ts';

/*
 * Payload of a TOKENS frame, one for all streams of an engine step:
 *   repeated { u32 stream, u8 choice, u8 n, n x u32 token id }
 */

const ENTRY_BYTES = 6;
/** Longer than any engine step: what all streams of a connection have credit for, each token in an entry of its own. */
const FRAME_BYTES_MAX = 4 << 20;
/** Token ids in one entry. */
const IDS_MAX = 255;

/** Who reads the entries of a TOKENS frame. `ids` is reused: valid only during the call. */
export interface TokenReceiver {
  streamTokens(streamId: number, choice: number, ids: Uint32Array, count: number): void;
}

/** Payload bytes of `count` tokens of one stream. */
export function tokenEntryBytes(count: number): number {
  return Math.ceil(count / IDS_MAX) * ENTRY_BYTES + 4 * count;
}

/** Starts a TOKENS frame in an empty writer; `closeTokensFrame` completes its header. */
export function appendTokens(
  writer: ByteWriter,
  streamId: number,
  choice: number,
  ids: ArrayLike<number>,
  start: number,
  count: number,
): void {
  if (writer.length === 0) writer.reserve(FRAME_HEADER_BYTES);
  let at = writer.reserve(tokenEntryBytes(count));
  const { bytes } = writer;
  for (let next = start, end = start + count; next < end; ) {
    const entryEnd = Math.min(next + IDS_MAX, end);
    writeU32(bytes, at, streamId);
    bytes[at + 4] = choice;
    bytes[at + 5] = entryEnd - next;
    at += ENTRY_BYTES;
    for (; next < entryEnd; next++, at += 4) writeU32(bytes, at, ids[next]!); // within the caller's range
  }
}

/** Completes the header of the frame that `appendTokens` started. */
export function closeTokensFrame(writer: ByteWriter): void {
  writeFrameHeader(writer.bytes, 0, writer.length - FRAME_HEADER_BYTES, FrameType.tokens, 0, CONNECTION_STREAM);
}

const scratch = new Uint32Array(IDS_MAX);

/** Hands every entry of `bytes[start .. end)` to `receiver`. Throws `FrameError` when the entries do not fill it exactly. */
export function readTokens(bytes: Buffer, start: number, end: number, receiver: TokenReceiver): void {
  if (end - start > FRAME_BYTES_MAX) throw new FrameError(`a TOKENS frame of ${end - start} bytes`);
  let at = start;
  while (at < end) {
    if (end - at < ENTRY_BYTES) throw new FrameError('TOKENS frame cut inside an entry');
    const streamId = readU32(bytes, at);
    const choice = bytes[at + 4]!; // inside the entry
    const count = bytes[at + 5]!; // inside the entry
    at += ENTRY_BYTES;
    if (count === 0) throw new FrameError('TOKENS without a token'); // it would take no credit
    if (end - at < 4 * count) throw new FrameError('TOKENS frame cut inside its ids');
    for (let id = 0; id < count; id++, at += 4) scratch[id] = readU32(bytes, at);
    receiver.streamTokens(streamId, choice, scratch, count);
  }
}
