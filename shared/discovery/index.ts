/**
 * @module discovery
 * Directory of the fleet: endpoint instances, model cards and event channels, each held by a lease of the process that
 * put it. Five back ends behind `Discovery`: `mem` (one process), `file` (one machine), `dynamodb`, `etcd` and
 * `kubernetes`. A reader notices a crash within the lease's time to live plus a poll or two. In the table, one process
 * gathers a view that all others read, so the cost of one reading grows with the fleet only once; the view holds up to
 * about 100,000 workers. etcd and Kubernetes tell each reader each change; in Kubernetes, a crash shows when the pod is
 * not ready.
 */
export { eventChannelPrefix } from './keys.ts';
export type { KubeAccess } from './kubernetes/access.ts';
export { findAccess } from './kubernetes/find-access.ts';
export { podFact } from './kubernetes/identity.ts';
export { KubeClient } from './kubernetes/kube-client.ts';
export { KubeFailure } from './kubernetes/kube-errors.ts';
export type { ReadingSource, StoreOptions, ViewObserver } from './options.ts';
export type {
  CheckedFile,
  DiscoveryRecord,
  EndpointRecord,
  EventChannelRecord,
  EventSourceRecord,
  HostFacts,
  ModelCard,
  ModelInput,
  ModelRecord,
  ModelType,
  RuntimeConfig,
  SamplingDefaults,
  TensorModelConfig,
  WorkerType,
} from './records.ts';
export { discoveryFolder, openStore } from './stores.ts';
export { quietSdkNotice } from './table/sdk.ts';
export { type Item, type ItemKey, Table } from './table/table.ts';
export type { TableOptions } from './table/table-client.ts';
export { StoreError, type TablePlace } from './table/table-errors.ts';
export { TableTime } from './table/table-time.ts';
export type {
  Catalogue,
  CatalogueEntry,
  Discovery,
  DiscoveryEvent,
  DrainOrder,
  FleetLoads,
  RankLoad,
  Watch,
  WatchListener,
  WorkerLoad,
} from './types.ts';
export { discoveredBrokers } from './zmq-brokers.ts';
