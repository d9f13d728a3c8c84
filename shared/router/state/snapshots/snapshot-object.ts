import type { RankId } from '../types.ts';

/** How far the events of one rank are in a snapshot. */
export interface RankCursor extends RankId {
  /** Id of the last event that is applied. */
  readonly eventId: number;
  /** Whose count that is, hex; undefined = the worker does not say. */
  readonly publisherId: string | undefined;
}

/** What a snapshot says of itself. */
export interface SnapshotHead {
  readonly createdAt: string;
  readonly sequence: number;
  /** Ranks that were complete. Others may be in it, in part: they are asked for a dump. */
  readonly cursors: readonly RankCursor[];
}

/*
 * A snapshot object, little-endian:
 *
 *   ['STSI'] [version: u32 = 1] [sequence: f64] [cursors: u32] [length of created at: u32] [created at]
 *   cursors of 28 bytes: [worker id: u64] [rank: u32] [event id: f64] [publisher id: u64, 0 = unknown]
 *   [zeros up to a multiple of 8] [the index, as it writes itself]
 *
 * Whether the bytes are those that were put is the store's to check.
 */

const MAGIC = 0x49535453; // 'STSI'
const VERSION = 1;
const HEAD_BYTES = 24;
const CURSOR_BYTES = 28;
const CURSORS_AT_ONCE = 2048; // about 0.2 ms
const ALIGNMENT = 8; // an index of typed arrays is read where it lies

/** The bytes of a snapshot, in slices. The head is as of the first slice, so the index must not be older than that. */
export async function* writeSnapshot(
  head: SnapshotHead,
  index: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const createdAt = Buffer.from(head.createdAt);
  const first = Buffer.alloc(HEAD_BYTES + createdAt.length);
  first.writeUInt32LE(MAGIC, 0);
  first.writeUInt32LE(VERSION, 4);
  first.writeDoubleLE(head.sequence, 8);
  first.writeUInt32LE(head.cursors.length, 16);
  first.writeUInt32LE(createdAt.length, 20);
  first.set(createdAt, HEAD_BYTES);
  yield first;
  for (let from = 0; from < head.cursors.length; from += CURSORS_AT_ONCE) {
    yield packCursors(head.cursors.slice(from, from + CURSORS_AT_ONCE));
  }
  const headBytes = HEAD_BYTES + createdAt.length + CURSOR_BYTES * head.cursors.length;
  yield new Uint8Array(aligned(headBytes) - headBytes);
  yield* index;
}

/** Reads a snapshot. @throws RangeError when it is none, cut short, or of a later version */
export function readSnapshot(bytes: Uint8Array): { readonly head: SnapshotHead; readonly index: Uint8Array } {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (view.length < HEAD_BYTES || view.readUInt32LE(0) !== MAGIC) throw new RangeError('not a snapshot of an index');
  const version = view.readUInt32LE(4);
  if (version !== VERSION) throw new RangeError(`a snapshot of version ${version}, not ${VERSION}`);
  const count = view.readUInt32LE(16);
  const cursorsAt = HEAD_BYTES + view.readUInt32LE(20);
  const cursorsEnd = cursorsAt + CURSOR_BYTES * count;
  const indexAt = aligned(cursorsEnd);
  if (indexAt > view.length) throw new RangeError('a snapshot that is cut short');
  const cursors: RankCursor[] = [];
  for (let at = cursorsAt; at < cursorsEnd; at += CURSOR_BYTES) {
    const workerId = view.readBigUInt64LE(at).toString(16);
    const publisher = view.readBigUInt64LE(at + 20);
    const publisherId = publisher === 0n ? undefined : publisher.toString(16);
    cursors.push({ workerId, dpRank: view.readUInt32LE(at + 8), eventId: view.readDoubleLE(at + 12), publisherId });
  }
  const createdAt = view.toString('utf8', HEAD_BYTES, cursorsAt);
  const head = { createdAt, sequence: view.readDoubleLE(8), cursors };
  return { head, index: new Uint8Array(bytes.buffer, bytes.byteOffset + indexAt, bytes.length - indexAt) };
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

function packCursors(cursors: readonly RankCursor[]): Uint8Array {
  const bytes = Buffer.alloc(CURSOR_BYTES * cursors.length);
  let at = 0;
  for (const { workerId, dpRank, eventId, publisherId } of cursors) {
    bytes.writeBigUInt64LE(BigInt(`0x${workerId}`), at);
    bytes.writeUInt32LE(dpRank, at + 8);
    bytes.writeDoubleLE(eventId, at + 12);
    bytes.writeBigUInt64LE(BigInt(`0x${publisherId ?? '0'}`), at + 20);
    at += CURSOR_BYTES;
  }
  return bytes;
}
