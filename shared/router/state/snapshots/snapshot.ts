import type { Clock, Random } from '../../../clock/index.ts';
import type { EventEnvelope, EventLog } from '../../../planes/event/index.ts';
import type { RankPlace } from '../../feed/kv-event-feed.ts';
import type { RankId, RouterState, StateName } from '../router-state.ts';

/** What a snapshot says of itself. */
interface SnapshotHead {
  readonly createdAt: string;
  readonly sequence: number;
  /** Ranks that were complete. Others may be in it, in part: they are asked for a dump. */
  readonly cursors: readonly RankPlace[];
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
  const cursors: RankPlace[] = [];
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

function packCursors(cursors: readonly RankPlace[]): Uint8Array {
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

/**
 * The index as the log and the snapshots see it: what `IndexReader` fills and `Snapshotter` writes. Behind it stand the block
 * index and whoever follows the event ids of each rank.
 */
export interface FoldedIndex {
  /**
   * Applies the events of one message. Those of a rank that is being recovered wait until its dump is there; those that were
   * applied before are passed over; a gap in the ids of a rank makes the index recover that rank by itself.
   */
  apply(envelope: EventEnvelope): void;
  /**
   * The index in slices, each made in at most 1 ms. Events may be applied in between: an event applied twice equals once, so
   * a reader that goes on from where the log stood at the first slice ends up with the same.
   */
  write(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  /**
   * Replaces everything by what `write` gave, and the positions of all ranks by `cursors`. Recoveries under way are void.
   * Rejects when it cannot read the bytes; it may then be left in any state.
   */
  load(snapshot: Uint8Array, cursors: readonly RankPlace[], signal: AbortSignal): Promise<void>;
  /** Forgets everything, cursors included. Recoveries under way are void. */
  clear(): void;
  /** Ranks that are complete, with their positions. */
  cursors(): readonly RankPlace[];
  /** Every rank of the pool as discovery knows it. */
  ranks(): readonly RankId[];
  /** Asks the worker for what the rank holds and replaces it by the answer. Bounds its own tries; rejects when they fail. */
  recover(rank: RankId, signal: AbortSignal): Promise<void>;
}

/** What reading and writing snapshots of one index takes. */
export interface SnapshotParts {
  readonly state: RouterState;
  readonly pointer: StateName;
  readonly store: SnapshotStore;
  readonly log: EventLog;
  readonly index: FoldedIndex;
  readonly clock: Clock;
  readonly random: Random;
}

/** Where a reader stands in the log. */
export interface LogPosition {
  readonly createdAt: string;
  /** The last sequence that is applied. */
  readonly sequence: number;
}

/**
 * Keeps snapshots of the index: large objects under names that are never overwritten. Every call rejects
 * with the signal's reason when it aborts, and with an error that names the store when the store fails.
 */
export interface SnapshotStore {
  /** Rejects when an object of that name exists. Whole or not at all: a reader never sees a part. */
  put(name: string, chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** Undefined when there is no such object. Fails when what is stored is not what was put. */
  get(name: string, signal: AbortSignal): Promise<Uint8Array | undefined>;
  /** Names, sorted. */
  list(signal: AbortSignal): Promise<readonly string[]>;
  /** Idempotent. */
  remove(name: string, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;
const DIGITS = 16; // 2^53 has 16 digits

/** @throws RangeError for a name that not every store can keep */
export function assertObjectName(name: string): void {
  if (!NAME.test(name)) {
    throw new RangeError(
      `snapshot name "${name}": letters, digits, ".", "_" and "-", at most 200, a letter or digit first`,
    );
  }
}

/**
 * The name of a snapshot: ordered as fence and sequence are, so that whoever holds a later lease writes later names. No two
 * snapshots have the same one: a fence is used for one snapshot only.
 */
export function objectName(pointer: StateName, fence: number, sequence: number): string {
  return `${objectPrefix(pointer)}${digits(fence)}-${digits(sequence)}`;
}

/** What the names of all snapshots of one pointer start with. */
export function objectPrefix({ namespace, name }: StateName): string {
  const plain = (text: string): string => Buffer.from(text).toString('base64url');
  return `index.${plain(namespace)}.${plain(name)}.`;
}

function digits(value: number): string {
  return String(value).padStart(DIGITS, '0');
}
