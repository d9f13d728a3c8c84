import type { Clock, Random } from '../../clock/index.ts';
import type { EventEnvelope, EventLog } from '../../planes/index.ts';
import { RecordReader } from '../../records/index.ts';
import type { RankId } from '../../router/index.ts';
import type { RankPlace } from '../../worker-events/index.ts';
import type { RouterState, StateName } from '../router-state.ts';

/** Header of a snapshot. */
interface SnapshotHead extends LogPosition {
  /** Complete ranks. The snapshot may contain others in part; a reader requests a dump for those. */
  readonly cursors: readonly RankPlace[];
}

/** An index that writes itself. It makes each chunk in at most 1 ms. */
export interface WrittenIndex {
  readonly name: string;
  readonly chunks: Iterable<Uint8Array>;
}

/*
 * A snapshot object, indexes one after another and then lines that describe them:
 *
 *   [index] ... [facts: JSON] [cursor] ... [bytes of the lines: u32, little-endian]
 *
 *   facts     {version, createdAt, sequence, indexes: {name: bytes}}
 *   cursor    worker id, rank, event id, publisher id or nothing, with spaces between
 *
 * The store must check that the bytes are those that were put.
 */

const VERSION = 2;
const LENGTH_BYTES = 4;
const CURSORS_AT_ONCE = 2048; // about 1 ms

/**
 * Yields the bytes of a snapshot, in slices. The head describes the state at the first slice, so no index may be older
 * than that.
 */
export function* writeSnapshot(
  { createdAt, sequence, cursors }: SnapshotHead,
  written: readonly WrittenIndex[],
): Generator<Uint8Array> {
  const indexes: Record<string, number> = {};
  for (const { name, chunks } of written) {
    indexes[name] = 0;
    for (const chunk of chunks) {
      indexes[name] += chunk.length;
      yield chunk;
    }
  }
  const facts = Buffer.from(JSON.stringify({ version: VERSION, createdAt, sequence, indexes }));
  yield facts;
  let bytes = facts.length;
  for (let from = 0; from < cursors.length; from += CURSORS_AT_ONCE) {
    const lines = Buffer.from(
      cursors
        .slice(from, from + CURSORS_AT_ONCE)
        .map(lineOf)
        .join(''),
    );
    bytes += lines.length;
    yield lines;
  }
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(bytes);
  yield length;
}

function lineOf({ workerId, dpRank, eventId, publisherId = '' }: RankPlace): string {
  return `\n${workerId} ${dpRank} ${eventId} ${publisherId}`;
}

/**
 * Reads a snapshot. Its indexes are views of the bytes. @throws RangeError if it is not a snapshot, is cut short, or
 * has another version
 */
export function readSnapshot(bytes: Uint8Array): {
  readonly head: SnapshotHead;
  readonly indexes: ReadonlyMap<string, Uint8Array>;
} {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const linesEnd = view.length - LENGTH_BYTES;
  const end = linesEnd < 0 ? -1 : linesEnd - view.readUInt32LE(linesEnd);
  if (end < 0) throw new RangeError('the snapshot is cut short');
  const [first = '', ...lines] = view.toString('utf8', end, linesEnd).split('\n');
  const facts = parseFacts(first);
  const indexes = new Map<string, Uint8Array>();
  let from = 0;
  for (const [name, length] of Object.entries(facts.indexes)) {
    indexes.set(name, new Uint8Array(bytes.buffer, bytes.byteOffset + from, length));
    from += length;
  }
  if (from !== end) throw new RangeError('the indexes of a snapshot do not fill it');
  const cursors = lines.map((line) => {
    const [workerId = '', dpRank, eventId, publisherId] = line.split(' ');
    return { workerId, dpRank: Number(dpRank), eventId: Number(eventId), publisherId: publisherId || undefined };
  });
  return { head: { createdAt: facts.createdAt, sequence: facts.sequence, cursors }, indexes };
}

interface SnapshotFacts extends LogPosition {
  readonly indexes: Readonly<Record<string, number>>;
}

const READ = new RecordReader((what) => new RangeError(`not a snapshot of an index: ${what}`));

function parseFacts(text: string): SnapshotFacts {
  let told: unknown;
  try {
    told = JSON.parse(text);
  } catch {
    // the error below covers it, as JSON of another kind
  }
  const { version, createdAt, sequence, indexes } = READ.record(told, 'its facts');
  if (version !== VERSION) {
    throw new RangeError(
      `a snapshot of ${version === undefined ? 'an earlier version' : `version ${version}`}, not ${VERSION}`,
    );
  }
  const lengths = Object.entries(READ.record(indexes, 'indexes')).map(
    ([name, bytes]) => [name, READ.wholeNumber(bytes, name)] as const,
  );
  return {
    createdAt: READ.text(createdAt, 'createdAt'),
    sequence: READ.wholeNumber(sequence, 'sequence'),
    indexes: Object.fromEntries(lengths),
  };
}

/**
 * The index as the log and the snapshots see it: `IndexReader` fills it and `Snapshotter` writes it. It consists of the
 * block indexes and of the feed that follows the event ids of each rank.
 */
export interface JoinedIndex {
  /**
   * Applies the events of one message. Events of a rank in recovery wait for its dump, and events that were already
   * applied are skipped. A gap in the ids of a rank makes the index recover that rank by itself.
   */
  received(envelope: EventEnvelope): void;
  /**
   * Returns its parts, in chunks. Events may be applied in between. An event applied twice equals one applied once, so
   * a reader that continues from the log's position at the first chunk has the same index in the end.
   */
  write(): readonly WrittenIndex[];
  /**
   * Replaces everything by the result of `write`, by name, and the positions of all ranks by `cursors`. Voids
   * recoveries in progress. Rejects if it cannot read the bytes; its state is then undefined.
   */
  load(indexes: ReadonlyMap<string, Uint8Array>, cursors: readonly RankPlace[], signal: AbortSignal): Promise<void>;
  /** Forgets everything, also the cursors. Voids recoveries in progress. */
  clear(): void;
  /** Returns the complete ranks, with their positions. */
  cursors(): readonly RankPlace[];
  /** Returns every rank of the pool that discovery knows. */
  ranks(): readonly RankId[];
  /**
   * Asks the worker for the blocks of the rank and replaces the rank's blocks by the answer. It bounds its own
   * attempts, and rejects if they fail.
   */
  recover(rank: RankId, signal: AbortSignal): Promise<void>;
}

/** Dependencies of reading and writing the snapshots of one index. */
export interface SnapshotDeps {
  readonly state: RouterState;
  readonly pointer: StateName;
  readonly store: SnapshotStore;
  readonly log: EventLog;
  readonly index: JoinedIndex;
  readonly clock: Clock;
  readonly random: Random;
}

/** Position of a reader in the log. */
export interface LogPosition {
  readonly createdAt: string;
  /** Last sequence that was applied. */
  readonly sequence: number;
}

/**
 * Keeps snapshots of the index: large objects under names that are never overwritten. Every call rejects with the
 * signal's reason when it aborts, and with an error that names the store when the store fails.
 */
export interface SnapshotStore {
  /** Stores an object, whole or not at all: a reader never sees a part. Rejects if an object of that name exists. */
  put(name: string, chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** Returns the object; undefined if there is none. Rejects if the stored bytes are not those that were put. */
  get(name: string, signal: AbortSignal): Promise<Uint8Array | undefined>;
  /** Returns the names, sorted. */
  list(signal: AbortSignal): Promise<readonly string[]>;
  /** Removes the object. Idempotent. */
  remove(name: string, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;
const DIGITS = 16; // 2^53 has 16 digits

/**
 * Checks a name.
 * @throws RangeError for a name that not every store can keep
 */
export function assertObjectName(name: string): void {
  if (!NAME.test(name)) {
    throw new RangeError(
      `snapshot name "${name}": letters, digits, ".", "_" and "-", at most 200, a letter or digit first`,
    );
  }
}

/**
 * Returns the name of a snapshot. Names are ordered as fence and sequence are, so that the holder of a later lease
 * writes later names. No two snapshots have the same name, because each fence is used for one snapshot only.
 */
export function objectName(pointer: StateName, fence: number, sequence: number): string {
  return `${objectPrefix(pointer)}${digits(fence)}-${digits(sequence)}`;
}

/** Returns the prefix that the names of one pointer's snapshots share. */
export function objectPrefix({ namespace, name }: StateName): string {
  const plain = (text: string): string => Buffer.from(text).toString('base64url');
  return `index.${plain(namespace)}.${plain(name)}.`;
}

function digits(value: number): string {
  return String(value).padStart(DIGITS, '0');
}
