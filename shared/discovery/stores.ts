import type { FleetSettings } from '../config/index.ts';
import type { OpenStore, StoreOptions } from './options.ts';
import type { Discovery } from './types.ts';

/** Every store by its name in `--discovery-backend`. Only the code of the opened store is loaded. */
const STORES: Readonly<Record<FleetSettings['discoveryBackend'], () => Promise<OpenStore>>> = {
  dynamodb: async () => (await import('./dynamodb/dynamodb-discovery.ts')).openDynamoDb,
  etcd: async () => (await import('./etcd/etcd-discovery.ts')).openEtcd,
  kubernetes: async () => (await import('./kubernetes/open-kubernetes.ts')).openKubernetes,
  file: async () => (await import('./file/file-discovery.ts')).openFile,
  mem: async () => (await import('./memory/memory-discovery.ts')).openMemory,
};

/** Returns the folder of `file` discovery: the named one, or the user's own. */
export async function discoveryFolder(settings: Pick<FleetSettings, 'fileKv'>): Promise<string> {
  const { fileRoot } = await import('./file/file-discovery.ts');
  return fileRoot(settings);
}

/** Opens the store that the settings name. */
export async function openStore(settings: FleetSettings, options: StoreOptions): Promise<Discovery> {
  const open = await STORES[settings.discoveryBackend]();
  return open(settings, options);
}
