/**
 * @module router
 * Which worker takes a request. One `choose()` seam: `SimpleRouter` here, for the modes that know nothing of caches, and
 * `KvRouter` of `scheduler`, for mode `kv`.
 */

export { InitialWorkers } from './initial-workers.ts';
export {
  type HashedPrompt,
  type PoolRole,
  type Reservation,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  type RouterMode,
  type SimpleRouterMode,
  type WorkerPool,
  withChoose,
} from './router.ts';
export {
  BYPASS_ANNOTATION,
  type BypassFacts,
  bootstrapRoom,
  bypassesRemotePrefill,
  type ConditionalDisaggregation,
  clientAnnotations,
  decodeOverride,
  type KvTransferPolicy,
  kvTransferPolicy,
  outOfReach,
  prefillStop,
  readConditionalDisaggregation,
  requirePrefillWorker,
  type TopologyFields,
  topologyFault,
  topologyTaint,
  withTransferPolicy,
} from './scheduler/disaggregation.ts';
export { Inhibition } from './scheduler/eligibility.ts';
export { type RouterOptions, SimpleRouter } from './scheduler/simple-router.ts';
