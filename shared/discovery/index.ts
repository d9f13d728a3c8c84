/**
 * @module discovery
 * Who serves what: endpoint instances, model cards and event channels, each held by a lease of the process that put it.
 * Three back ends behind `Discovery`: `mem` (one process), `file` (one machine), `dynamodb`. A reader sees a crash within the
 * lease's time to live plus one poll; the table is read in full at each poll, which suits fleets of up to some thousands.
 */

export { createDiscoveryTable } from './dynamodb/discovery-table.ts';
export { DISCOVERY_TABLE_SCHEMA } from './dynamodb/schema.ts';
export { eventChannelPrefix } from './keys.ts';
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
export { openStore, type StoreOptions } from './stores.ts';
export { type DynamoDbSdk, loadSdk as loadDynamoDbSdk, quietSdkNotice } from './table/sdk.ts';
export type {
  Bucket,
  Catalogue,
  CatalogueEntry,
  Discovery,
  DiscoveryEvent,
  DiscoveryQuery,
  FleetLoads,
  RankLoad,
  Watch,
  WatchListener,
  WorkerLoad,
} from './types.ts';
export type { ReadingSource, ViewObserver } from './view-observer.ts';
export { discoveredBrokers } from './zmq-brokers.ts';
