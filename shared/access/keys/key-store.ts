import type { KeyRecord } from './key-record.ts';

/** What went wrong: `unavailable` may pass, `misconfigured` will not by itself, `conflict` is somebody else's change. */
export type KeyStoreErrorCode = 'unavailable' | 'misconfigured' | 'conflict';

/** A failure of a key store, in one line that says what to do. */
export class KeyStoreError extends Error {
  override readonly name = 'KeyStoreError';
  readonly code: KeyStoreErrorCode;

  constructor(code: KeyStoreErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** Changes a record; what it returns replaces it. */
export type KeyChange = (record: KeyRecord) => KeyRecord;

/**
 * Where keys are kept. A record never holds a secret. Every method ends within the store's own deadline, or earlier when
 * `signal` aborts, and then rejects with a `KeyStoreError` or the signal's reason.
 */
export interface KeyStore {
  /** The record as it is now; undefined when there is none. */
  get(id: string, signal?: AbortSignal): Promise<KeyRecord | undefined>;
  /** Keeps a new record. @throws KeyStoreError `conflict` when the id is taken */
  put(record: KeyRecord, signal?: AbortSignal): Promise<void>;
  /** Every record, oldest first. */
  list(signal?: AbortSignal): Promise<readonly KeyRecord[]>;
  /**
   * Replaces a record by what `change` makes of it, which is called again where somebody else was faster. Undefined when there
   * is none; the changed record otherwise.
   */
  update(id: string, change: KeyChange, signal?: AbortSignal): Promise<KeyRecord | undefined>;
  /** False when there was none. */
  delete(id: string, signal?: AbortSignal): Promise<boolean>;
  close(): void;
}

export function oldestFirst(records: readonly KeyRecord[]): readonly KeyRecord[] {
  return records.toSorted((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
}

export function idIsTaken(id: string): KeyStoreError {
  return new KeyStoreError('conflict', `there is a key ${id} already`);
}
