import type { Clock } from '../../clock/index.ts';
import { StoreError } from '../../discovery/index.ts';
import type { KeyLimits, KeyRecord, Scope } from './key-record.ts';
import { digestOf, newKeyId, newKeyText } from './key-text.ts';

/**
 * Kind of a failure: `unavailable` may pass, `misconfigured` will not pass by itself, `conflict` means that another
 * process has changed the record.
 */
type KeyStoreErrorCode = 'unavailable' | 'misconfigured' | 'conflict';

/** A failure of a key store, as one line that says what to do. */
export class KeyStoreError extends StoreError<KeyStoreErrorCode> {
  override readonly name = 'KeyStoreError';
}

/** Changes a record; the returned record replaces it. */
export type KeyChange = (record: KeyRecord) => KeyRecord;

/**
 * Store of keys. A record never holds a secret. Every method ends within the store's own deadline, or earlier if
 * `signal` aborts, and then rejects with a `KeyStoreError` or the signal's reason.
 */
export interface KeyStore {
  /** Returns the current record; undefined if there is none. */
  get(id: string, signal?: AbortSignal): Promise<KeyRecord | undefined>;
  /** Stores a new record. @throws KeyStoreError `conflict` if the id is taken */
  put(record: KeyRecord, signal?: AbortSignal): Promise<void>;
  /** Returns every record, oldest first. */
  list(signal?: AbortSignal): Promise<readonly KeyRecord[]>;
  /**
   * Replaces a record by the result of `change`, and calls `change` again if another process was faster. Returns the
   * changed record, or undefined if there is none.
   */
  update(id: string, change: KeyChange, signal?: AbortSignal): Promise<KeyRecord | undefined>;
  /** Removes a record. Returns false if there was none. */
  delete(id: string, signal?: AbortSignal): Promise<boolean>;
  close(): void;
}

export function oldestFirst(records: readonly KeyRecord[]): readonly KeyRecord[] {
  return records.toSorted((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
}

export function idIsTaken(id: string): KeyStoreError {
  return new KeyStoreError('conflict', `key ${id} already exists`);
}

/** Properties of a new key that an operator chooses. */
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

/** A key with its secret, which cannot be shown again. */
export interface IssuedKey {
  readonly text: string;
  readonly record: KeyRecord;
}

/** Makes a key and stores its record. Rejects with a `KeyStoreError`. */
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
 * Gives a key another secret. The previous secret stays valid for `overlapMs`; earlier ones end at once. Returns
 * undefined if there is no such key. Id, owner and limits stay.
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

/** Limits to change; null takes a limit away. */
export type LimitChange = { readonly [K in keyof KeyLimits]?: number | null | undefined };

/** Changes limits of a key. Others stay. Returns undefined if there is no such key. */
export function limitKey(store: KeyStore, id: string, change: LimitChange): Promise<KeyRecord | undefined> {
  return store.update(id, (record) => {
    const given = Object.entries(change).filter(([, limit]) => limit !== undefined);
    const limits = Object.entries({ ...record.limits, ...Object.fromEntries(given) });
    return { ...record, limits: Object.fromEntries(limits.filter(([, limit]) => limit !== null)) };
  });
}

/** Ends a key, which stays in lists. Returns undefined if there is no such key. */
export function revokeKey(store: KeyStore, clock: Clock, id: string): Promise<KeyRecord | undefined> {
  return store.update(id, (record) => ({ ...record, revokedMs: record.revokedMs ?? clock.wallMs() }));
}
