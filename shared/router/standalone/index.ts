/**
 * @module router/standalone
 * The services that Dynamo runs beside its router: the router on the request plane, the indexer, the
 * slot tracker and the selection service, each thin routes over the router's own cores. Sockets and ports come from the host.
 */

export { parseExactJson, writeExactJson } from '../exact-json.ts';
export { type EndpointName, type EndpointWorker, EndpointWorkers, parseEndpointName } from './endpoint-workers.ts';
export { type IndexerOptions, type IndexerRegistration, StandaloneIndexer } from './indexer.ts';
export { createIndexerMetrics, type IndexerMetrics } from './indexer-metrics.ts';
export { type IndexerRoutesOptions, indexerRoutes } from './indexer-routes.ts';
export { Peers } from './peers.ts';
export { PlaneRouter, type PlaneRouterOptions, STANDALONE_COMPONENT } from './plane-router.ts';
export type { KvListener, ListenSource, OpenListener } from './rank-listeners.ts';
export { type ReplicaLink, ReplicaPools } from './replica-link.ts';
export { type SelectionRoutesOptions, selectionRoutes } from './selection-routes.ts';
export { SelectionService, type SelectionServiceOptions } from './selection-service.ts';
export {
  BODY_BYTES_MAX as SERVICE_BODY_BYTES_MAX,
  createServiceApp,
  type Route,
  type ServiceApp,
  type ServiceAppOptions,
} from './service-app.ts';
export { slotRoutes } from './slot-routes.ts';
export { SlotTracker, type SlotTrackerOptions } from './slot-tracker.ts';
