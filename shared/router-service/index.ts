/**
 * @module router-service A router that other processes ask, over the request plane or gRPC: `ResidentService` answers,
 * and `ResidentRouter` asks. `RemoteIndex` asks an index in the same way.
 */
export { createResidentMetrics, ResidentService } from './choose-service.ts';
export { RouterLine } from './grpc/router-line.ts';
export { serveRouterGrpc } from './grpc/router-server.ts';
export { type PresentPool, queryOf, ROUTER_COMPONENT, WELL_KNOWN_INSTANCE } from './messages.ts';
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
export { createFallbackMetrics, ResidentRouter } from './resident-router.ts';
export { type ResidentAddress, type ResidentLine, watchResidents, watchResidentUrls } from './residents.ts';
