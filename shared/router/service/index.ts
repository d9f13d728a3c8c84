/**
 * @module router/service
 * The router as a service. A resident router answers `Choose` for processes that keep no index of their own
 * (`ResidentService`, on the request plane and by gRPC); those ask it through `ResidentRouter`, which decides by itself
 * whenever no answer comes.
 */
export { createResidentMetrics, ResidentService, type ResidentServiceOptions } from './choose-service.ts';
export {
  type ChooseMessage,
  type ChooseQuery,
  type ChooseService,
  type ChosenWorker,
  type PoolLoads,
  type PresentPool,
  queryOf,
  type ReservationChangeQuery,
  ROUTER_COMPONENT,
  WELL_KNOWN_INSTANCE,
} from './messages.ts';
export {
  type RouterEndpoint,
  type ServedIndex,
  serveEndpoints,
  serveIndexOnPlane,
  serveRouterOnPlane,
} from './plane-service.ts';
export {
  askIndex,
  askingRouter,
  createRemoteIndexMetrics,
  INDEX_RECORD_ENDPOINT,
  type IndexerAddress,
  RemoteIndex,
  type RemoteIndexObserver,
  watchIndexers,
} from './remote-index.ts';
export { ResidentClient } from './resident-client.ts';
export { createFallbackMetrics, type EmbeddedRouter, ResidentRouter } from './resident-router.ts';
export {
  type AskedCall,
  CHANGE_MS_MAX,
  EXPLAIN_MS_MAX,
  type ResidentAddress,
  type ResidentLine,
  UNDECIDED,
  watchResidents,
  watchResidentUrls,
} from './residents.ts';
