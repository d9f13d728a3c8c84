import type { FleetSettings } from '../config/index.ts';
import type { DiscoveryBaseOptions } from './options.ts';
import type { Discovery } from './types.ts';

export interface StoreOptions extends DiscoveryBaseOptions {
  /** Whether the process lives on between its requests; one that is frozen writes nothing that is for all. @default true */
  readonly isLasting?: boolean;
}

/** Opens a store as the settings of a process say. Throws one line for an operator where something is missing. */
export type OpenStore = (settings: FleetSettings, options: StoreOptions) => Discovery | Promise<Discovery>;

/** Every store by its name in `--discovery-backend`. Only the code of the one that is opened is loaded. */
const STORES: Readonly<Record<FleetSettings['discoveryBackend'], () => Promise<OpenStore>>> = {
  dynamodb: async () => (await import('./dynamodb/dynamodb-discovery.ts')).openDynamoDb,
  file: async () => (await import('./file/file-discovery.ts')).openFile,
  mem: async () => (await import('./memory/memory-discovery.ts')).openMemory,
};

/** The store that the settings name. */
export async function openStore(settings: FleetSettings, options: StoreOptions): Promise<Discovery> {
  const open = await STORES[settings.discoveryBackend]();
  return open(settings, options);
}
