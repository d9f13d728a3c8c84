import type { Clock, Random } from '../../clock/index.ts';
import type { EventEnvelope, EventLog } from '../../planes/index.ts';
import { RecordReader } from '../../records/index.ts';
import type { RankId } from '../../router/index.ts';
import type { RankPlace } from '../../worker-events/index.ts';
import type { RouterState, StateName } from '../router-state.ts';

/** Header of a snapshot. */
interface SnapshotHead extends LogPosition {
  /** Ranks that were complete. Others may be in it, in part: they are asked for a dump. */
  readonly cursors: readonly RankPlace[];
}

/** An index as it writes itself; each chunk is made in at most 1 ms. */
export interface WrittenIndex {
  readonly name: string;
  readonly chunks: Iterable<Uint8Array>;
}

/*
 * A snapshot object, indexes one behind the other and then what they are, in lines:
 *
 *   [index] [index] ... [facts: JSON] [cursor] [cursor] ... [bytes of the lines: u32, little-endian]
 *
 *   facts     {version, createdAt, sequence, indexes: {name: bytes}}
 *   cursor    worker id, rank, event id, publisher id or nothing, with spaces between
 *
 * Whether the bytes are those that were put is the store's to check.
 */

const VERSION = 2;
const LENGTH_BYTES = 4;
const CURSORS_AT_ONCE = 2048; // about 1 ms

/** The bytes of a snapshot, in slices. The head is as of the first slice, so no index must be older than that. */
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
 * Reads a snapshot; its indexes are views of the bytes. @throws RangeError when it is none, cut short, or of another
 * version
 */
export function readSnapshot(bytes: Uint8Array): {
  readonly head: SnapshotHead;
  readonly indexes: ReadonlyMap<string, Uint8Array>;
} {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const linesEnd = view.length - LENGTH_BYTES;
  const end = linesEnd < 0 ? -1 : linesEnd - view.readUInt32LE(linesEnd);
  if (end < 0) throw new RangeError('a snapshot that is cut short');
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
    // told below, as for JSON of another kind
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
 * The index as the log and the snapshots see it: what `IndexReader` fills and `Snapshotter` writes. Behind it stand the
 * block index and whoever follows the event ids of each rank.
 */
export interface FoldedIndex {
  /**
   * Applies the events of one message. Those of a rank that is being recovered wait until its dump is there; those that
   * were applied before are passed over; a gap in the ids of a rank makes the index recover that rank by itself.
   */
  received(envelope: EventEnvelope): void;
  /**
   * What it is made of, in chunks. Events may be applied in between: an event applied twice equals once, so a reader
   * that goes on from where the log stood at the first chunk ends up with the same.
   */
  write(): readonly WrittenIndex[];
  /**
   * Replaces everything by what `write` gave, by name, and the positions of all ranks by `cursors`. Recoveries under
   * way are void. Rejects when it cannot read the bytes; it may then be left in any state.
   */
  load(indexes: ReadonlyMap<string, Uint8Array>, cursors: readonly RankPlace[], signal: AbortSignal): Promise<void>;
  /** Forgets everything, cursors included. Recoveries under way are void. */
  clear(): void;
  /** Ranks that are complete, with their positions. */
  cursors(): readonly RankPlace[];
  /** Every rank of the pool as discovery knows it. */
  ranks(): readonly RankId[];
  /**
   * Asks the worker for what the rank holds and replaces it by the answer. Bounds its own tries; rejects when they
   * fail.
   */
  recover(rank: RankId, signal: AbortSignal): Promise<void>;
}

/** Dependencies of reading and writing the snapshots of one index. */
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
 * The name of a snapshot: ordered as fence and sequence are, so that whoever holds a later lease writes later names. No
 * two snapshots have the same one: a fence is used for one snapshot only.
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
