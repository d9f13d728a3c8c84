import type { DynamoDbDiscoveryOptions } from './dynamodb/dynamodb-discovery.ts';
import type { FileDiscoveryOptions } from './file/file-discovery.ts';
import type { MemoryDiscoveryOptions } from './memory/memory-discovery.ts';
import { DiscoveryError } from './options.ts';
import type { Discovery } from './types.ts';

/** A back end by name, with what it needs. */
export type DiscoveryOptions =
  | ({ readonly backend: 'mem' } & MemoryDiscoveryOptions)
  | ({ readonly backend: 'file' } & FileDiscoveryOptions)
  | ({ readonly backend: 'dynamodb' } & DynamoDbDiscoveryOptions);

/**
 * Opens a discovery back end; only its own code is loaded.
 *
 * @example const discovery = await createDiscovery({ backend: 'file', rootPath: '/tmp/stator' });
 */
export async function createDiscovery(options: DiscoveryOptions): Promise<Discovery> {
  if (options.backend === 'mem') {
    const { MemoryDiscovery } = await import('./memory/index.ts');
    return new MemoryDiscovery(options);
  }
  if (options.backend === 'file') {
    const { FileDiscovery } = await import('./file/file-discovery.ts');
    return new FileDiscovery(options);
  }
  const { DynamoDbDiscovery } = await import('./dynamodb/dynamodb-discovery.ts');
  return DynamoDbDiscovery.open(options);
}

/** Checks a configured back end. Throws one line that says what to use instead of what is not built. */
export function parseDiscoveryBackend(name: string): Discovery['backend'] {
  if (name === 'mem' || name === 'file' || name === 'dynamodb') return name;
  const hint = 'Use dynamodb (with STATOR_DISCOVERY_TABLE), file (with DYN_FILE_KV) or mem';
  const isPlanned = name === 'etcd' || name === 'kubernetes';
  const what = isPlanned ? `discovery backend "${name}" is not built yet` : `unknown discovery backend "${name}"`;
  throw new DiscoveryError('misconfigured', `${what}. ${hint}`);
}
