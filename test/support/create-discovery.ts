import { DynamoDbDiscovery } from '../../shared/discovery/dynamodb/dynamodb-discovery.ts';
import type { DynamoDbDiscoveryOptions } from '../../shared/discovery/dynamodb/options.ts';
import { EtcdDiscovery } from '../../shared/discovery/etcd/etcd-discovery.ts';
import type { EtcdDiscoveryOptions } from '../../shared/discovery/etcd/options.ts';
import { FileDiscovery, type FileDiscoveryOptions } from '../../shared/discovery/file/file-discovery.ts';
import type { Discovery, TableOptions } from '../../shared/discovery/index.ts';

/** Options of a store that several processes share, by its name. They include options without a setting. */
export type SharedStoreOptions =
  | ({ readonly backend: 'file' } & FileDiscoveryOptions)
  | ({ readonly backend: 'etcd' } & EtcdDiscoveryOptions)
  | ({ readonly backend: 'dynamodb' } & DynamoDbDiscoveryOptions & TableOptions);

export async function createDiscovery(options: SharedStoreOptions): Promise<Discovery> {
  switch (options.backend) {
    case 'file':
      return new FileDiscovery(options);
    case 'etcd':
      return new EtcdDiscovery(options);
    case 'dynamodb':
      return DynamoDbDiscovery.open(options);
  }
}
