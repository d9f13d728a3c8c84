import type { EventEnvelope } from '../../../planes/event/index.ts';
import type { RankId } from '../types.ts';
import type { RankCursor } from './snapshot-object.ts';

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
  load(snapshot: Uint8Array, cursors: readonly RankCursor[], signal: AbortSignal): Promise<void>;
  /** Forgets everything, cursors included. Recoveries under way are void. */
  clear(): void;
  /** Ranks that are complete, with their positions. */
  cursors(): readonly RankCursor[];
  /** Every rank of the pool as discovery knows it. */
  ranks(): readonly RankId[];
  /** Asks the worker for what the rank holds and replaces it by the answer. Bounds its own tries; rejects when they fail. */
  recover(rank: RankId, signal: AbortSignal): Promise<void>;
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
  readonly name: 'memory' | 'file' | 'nats';
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
