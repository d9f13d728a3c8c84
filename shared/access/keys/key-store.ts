import type { Clock } from '../../clock/index.ts';
import { StoreError } from '../../discovery/index.ts';
import { digestOf, type KeyLimits, type KeyRecord, newKeyId, newKeyText, type Scope } from './key-record.ts';

/** What went wrong: `unavailable` may pass, `misconfigured` will not by itself, `conflict` is somebody else's change. */
type KeyStoreErrorCode = 'unavailable' | 'misconfigured' | 'conflict';

/** A failure of a key store, in one line that says what to do. */
export class KeyStoreError extends StoreError<KeyStoreErrorCode> {
  override readonly name = 'KeyStoreError';
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
  return new KeyStoreError('conflict', `key ${id} already exists`);
}

/** What an operator says of a new key. */
export interface NewKey {
  readonly name: string;
  /** @default the key itself, by its id */
  readonly owner?: string | undefined;
  readonly scopes: readonly Scope[];
  readonly models?: readonly string[] | undefined;
  readonly routes?: readonly string[] | undefined;
  readonly limits: KeyLimits;
  /** @default it does not expire */
  readonly lifeMs?: number | undefined;
}

/** A key with its secret, which nobody can tell again. */
export interface IssuedKey {
  readonly text: string;
  readonly record: KeyRecord;
}

/** Makes a key and keeps its record. Rejects with a `KeyStoreError`. */
export async function issueKey(store: KeyStore, clock: Clock, wanted: NewKey): Promise<IssuedKey> {
  const { name, owner, scopes, models, routes, limits, lifeMs } = wanted;
  const id = newKeyId();
  const text = newKeyText(id);
  const createdMs = clock.wallMs();
  const record: KeyRecord = {
    id,
    name,
    owner: owner ?? id,
    digest: digestOf(text),
    scopes,
    ...(models && { models }),
    ...(routes && { routes }),
    limits,
    createdMs,
    ...(lifeMs !== undefined && { expiresMs: createdMs + lifeMs }),
  };
  await store.put(record);
  return { text, record };
}

/**
 * Gives a key another secret; the one before counts for `overlapMs` more, any earlier one no longer. Undefined when there is no
 * such key. Id, owner and limits stay.
 */
export async function rotateKey(
  store: KeyStore,
  clock: Clock,
  id: string,
  overlapMs: number,
): Promise<IssuedKey | undefined> {
  const text = newKeyText(id);
  const untilMs = clock.wallMs() + overlapMs;
  const record = await store.update(id, (before) => ({
    ...before,
    digest: digestOf(text),
    previous: { digest: before.digest, untilMs },
  }));
  return record && { text, record };
}

/** Ends a key; it stays in lists. Undefined when there is no such key. */
export function revokeKey(store: KeyStore, clock: Clock, id: string): Promise<KeyRecord | undefined> {
  return store.update(id, (record) => ({ ...record, revokedMs: record.revokedMs ?? clock.wallMs() }));
}
