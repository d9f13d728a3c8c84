/**
 * @module router/service
 * The router as a service. A resident router answers `Choose` for processes that keep no index of their own
 * (`ResidentService`, on the request plane and by gRPC); those ask it through `createResidentRouter`, which decides by itself
 * whenever no answer comes.
 */
export { Answering, type AnsweringOptions } from './answering.ts';
export { askIndex, askingRouter } from './asking-router.ts';
export type { ChooseAnswer, UnansweredReason } from './choose-call.ts';
export { ResidentService, type ResidentServiceOptions } from './choose-service.ts';
export { INDEX_RECORD_ENDPOINT } from './index-messages.ts';
export { type IndexServiceOptions, type ServedIndex, serveIndexOnPlane } from './index-service.ts';
export { watchIndexers } from './indexer-watch.ts';
export { type ChooseMessage, ROUTER_COMPONENT, WELL_KNOWN_INSTANCE } from './messages.ts';
export { type RouterAddress, type RouterEndpoint, serveRouterOnPlane } from './plane-service.ts';
export { queryOf } from './query.ts';
export {
  type IndexerAddress,
  RemoteIndex,
  type RemoteIndexObserver,
  type RemoteIndexOptions,
} from './remote-index.ts';
export type { ReservationBookOptions } from './reservation-book.ts';
export type {
  AskedCall,
  ChooseSink,
  ResidentAddress,
  ResidentChannelOptions,
  ResidentLine,
} from './resident-channel.ts';
export { type ResidentAnswer, ResidentClient, type ResidentClientOptions } from './resident-client.ts';
export { createResidentRouter, type EmbeddedRouter, type ResidentRouterOptions } from './resident-router.ts';
export { type ResidentUrlOptions, watchResidentUrls } from './resident-urls.ts';
export { watchResidents } from './resident-watch.ts';
export {
  createLadderMetrics,
  createRemoteIndexMetrics,
  createResidentMetrics,
  type DecisionSource,
  type FallbackReason,
  type LadderMetrics,
  type ResidentFacts,
  type ResidentMetrics,
} from './service-metrics.ts';
export { createStatelessRouter, type FleetLoads, type StatelessRouterOptions } from './stateless-router.ts';
export type {
  ChooseListener,
  ChooseQuery,
  ChooseService,
  ChosenWorker,
  PoolLoads,
  PresentPool,
  ReservationChangeQuery,
  ReservationStage,
} from './types.ts';
