/**
 * @module router
 * Which worker takes a request. One `choose()` seam: `createRouter` (in `indexless`) for the modes that know nothing of caches,
 * `createKvRouter` for mode `kv`, which decides by what each worker has cached and how loaded it is. `createScheduler` is its core, pure.
 */

export {
  defaultKvRouterConfig,
  type KvRouterConfig,
  KvRouterConfigError,
  kvRouterConfig,
  loadAware,
  prefillPoolConfig,
  type QueuePolicy,
} from './config/kv-config.ts';
export { readKvRouterConfig } from './config/kv-config-object.ts';
export { type CostModelChoice, costModelOf, kvRouterConfigOf } from './config/kv-settings.ts';
export { RendezvousShare } from './cost/replica-share.ts';
export { type CandidateRecord, type ExplanationRecord, explanationRecord } from './explain/explanation-record.ts';
export { renderExplanation } from './explain/render-explanation.ts';
export { createKvRouter, poolName } from './kv-router.ts';
export type { KvPool, KvRouter, KvRouterOptions, PeerTeller } from './kv-router-types.ts';
export { ActiveLoad } from './load/active-load.ts';
export type { PrefillDurationModel } from './load/prefill-duration.ts';
export { InFlight, type Pick, pickerFor } from './modes/router.ts';
export { Overlaps } from './overlaps.ts';
export { type Predictions, predictedIndex, predictingIndex } from './predictions.ts';
export { type PolicyClass, type PolicyConfig, type PolicyProfile, profileFor } from './queue/policy-config.ts';
export { RankTable } from './rank-table.ts';
export { type QueueLimit, RoutingError, type RoutingFailure } from './routing-error.ts';
export type { DecisionFacts, KvRouterObserver, PendingTotals, SchedulerObserver } from './scheduler/router-observer.ts';
export { createScheduler, type SchedulerOptions } from './scheduler/scheduler.ts';
export type {
  Booking,
  CandidateExplanation,
  Decision,
  DecisionReason,
  Explanation,
  PotentialLoad,
  PrefixIndex,
  RankLoad,
  RankWeight,
  SchedulableWorker,
  Scheduler,
  SchedulingOutcome,
  SchedulingRequest,
  SchedulingTicket,
} from './scheduler/scheduler-types.ts';
export { SessionAffinity, type SessionAffinityOptions, type SessionTarget } from './session-affinity.ts';
export type {
  HashedPrompt,
  PoolRole,
  Reservation,
  RoutableWorker,
  RouteRequest,
  Router,
  RouterMode,
  SimpleRouterMode,
  WorkerPool,
} from './types.ts';
