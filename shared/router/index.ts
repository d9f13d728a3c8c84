/**
 * @module router The seam of routing: a `Router` takes a `RouteRequest` and reserves a place at a worker of its
 * `WorkerPool`, or fails with a `RoutingError`. The scheduler implements it for the modes of one process,
 * `router-service` for questions to another process, and `stateless-router` if only hashing decides.
 */
export { InitialWorkers } from './initial-workers.ts';
export { keyOfText, type RendezvousKey, seedOf, weightOf } from './rendezvous.ts';
export {
  describeFailure,
  type HashedPrompt,
  hasRank,
  type PoolRole,
  type PromptHome,
  poolName,
  type RankId,
  type RequestFault,
  type Reservation,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  RoutingError,
  type RoutingFailure,
  rootOf,
  type SimpleRouterMode,
  type WorkerPool,
  withChoose,
} from './router.ts';
