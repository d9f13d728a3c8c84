import type { Clock } from '../../../clock/index.ts';
import { createTable, type TableOptions, type TablePlace } from '../../../discovery/table/index.ts';
import { KeyStoreError } from '../key-store.ts';

/** The table of keys as its messages name it. */
export function keysTablePlace({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'keys table',
    setting: 'STATOR_KEYS_TABLE',
    alternative: ', or keep keys in a file (--keys-file)',
    toError: (code, message, cause) => new KeyStoreError(code, message, cause),
    isOwnError: (thrown) => thrown instanceof KeyStoreError,
  };
}

/**
 * Creates the table of keys, for emulators and first trials; a deployment creates its tables by itself. Behind no door: a
 * function that checks keys would carry it.
 */
export function createKeysTable(options: TableOptions, clock?: Clock): Promise<void> {
  return createTable(keysTablePlace(options), clock);
}
