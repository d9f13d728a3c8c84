import { DynamoDbDiscovery } from '../../shared/discovery/dynamodb/dynamodb-discovery.ts';
import type { DynamoDbDiscoveryOptions } from '../../shared/discovery/dynamodb/options.ts';
import { FileDiscovery, type FileDiscoveryOptions } from '../../shared/discovery/file/file-discovery.ts';
import type { Discovery, TableOptions } from '../../shared/discovery/index.ts';

/** Options of a store that several processes share, by its name. They include options without a setting. */
export type SharedStoreOptions =
  | ({ readonly backend: 'file' } & FileDiscoveryOptions)
  | ({ readonly backend: 'dynamodb' } & DynamoDbDiscoveryOptions & TableOptions);

export async function createDiscovery(options: SharedStoreOptions): Promise<Discovery> {
  return options.backend === 'file' ? new FileDiscovery(options) : DynamoDbDiscovery.open(options);
}
