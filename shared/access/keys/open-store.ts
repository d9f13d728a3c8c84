import type { EdgeSettings } from '../../config/index.ts';
import { DynamoDbKeyStore } from './dynamodb-key-store.ts';
import { FileKeyStore } from './file-key-store.ts';
import type { KeyStore } from './key-store.ts';

/** Opens the store that the settings name, the table before the file. Returns undefined if they name none. */
export async function openKeyStore({
  keysTable: tableName,
  keysFile: file,
  dynamodbEndpoint: endpoint,
  awsRegion: region,
}: Pick<EdgeSettings, 'keysTable' | 'keysFile' | 'dynamodbEndpoint' | 'awsRegion'>): Promise<KeyStore | undefined> {
  if (tableName !== undefined) return DynamoDbKeyStore.open({ tableName, endpoint, region });
  return file === undefined ? undefined : new FileKeyStore(file);
}
