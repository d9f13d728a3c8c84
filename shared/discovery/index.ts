/**
 * @module discovery
 * Who serves what: endpoint instances, model cards and event channels, each held by a lease of the process that put it.
 */

export { DiscoveryError, type DiscoveryErrorCode } from './discovery-error.ts';
export { FileDiscovery, type FileDiscoveryOptions } from './file/file-discovery.ts';
export { addressOf, eventChannelPrefix } from './keys.ts';
export { MemoryDiscovery, type MemoryDiscoveryOptions } from './memory/memory-discovery.ts';
export { MemoryHub } from './memory/memory-hub.ts';
export type { DiscoveryBaseOptions } from './options.ts';
export type {
  CheckedFile,
  DiscoveryRecord,
  EndpointRecord,
  EventChannelRecord,
  ModelCard,
  ModelInput,
  ModelRecord,
  ModelType,
  RuntimeConfig,
  WorkerType,
} from './records.ts';
export type { Bucket, Discovery, DiscoveryEvent, DiscoveryQuery, Watch, WatchListener } from './types.ts';
