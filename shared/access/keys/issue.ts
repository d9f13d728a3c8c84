import type { Clock } from '../../clock/index.ts';
import type { KeyLimits, KeyRecord, Scope } from './key-record.ts';
import type { KeyStore } from './key-store.ts';
import { digestOf, newKeyId, newKeyText } from './key-text.ts';

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
