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
