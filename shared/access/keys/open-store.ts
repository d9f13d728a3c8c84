import { DynamoDbKeyStore } from './dynamodb-key-store.ts';
import { FileKeyStore } from './file-key-store.ts';
import type { KeyStore } from './key-store.ts';

/** Where keys are kept, as settings say it. */
export interface KeyStorePlace {
  /** Wins over the file. */
  readonly tableName: string | undefined;
  readonly file: string | undefined;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
}

/** Undefined when no place is named. */
export async function openKeyStore({
  tableName,
  file,
  endpoint,
  region,
}: KeyStorePlace): Promise<KeyStore | undefined> {
  if (tableName !== undefined) return DynamoDbKeyStore.open({ tableName, endpoint, region });
  return file === undefined ? undefined : new FileKeyStore(file);
}
