/**
 * @module discovery
 * Who serves what: endpoint instances, model cards and event channels, each held by a lease of the process that put it.
 */
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
