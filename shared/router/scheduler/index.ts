/**
 * @module router/scheduler
 * Chooses a worker by what each has cached and how loaded it is: `KvRouter`, the router of mode `kv`, and `Scheduler`, its core,
 * pure. What decides without an index is behind the door of `router`: a bundler takes in everything behind a door, and a
 * function should start fast.
 */

export { RendezvousShare } from '../rendezvous.ts';
export { poolName, type QueueLimit, RoutingError, type RoutingFailure } from '../router.ts';
export { type CandidateRecord, type ExplanationRecord, renderExplanation } from './explanation-record.ts';
export {
  defaultKvRouterConfig,
  type KvRouterConfig,
  KvRouterConfigError,
  kvRouterConfig,
  loadAware,
  prefillPoolConfig,
  type QueuePolicy,
} from './kv-config.ts';
export { type CostModelChoice, costModelOf, kvRouterConfigOf } from './kv-config-sources.ts';
export { type KvPool, KvRouter, type KvRouterOptions, type PeerTeller } from './kv-router.ts';
export { ActiveLoad } from './load/active-load.ts';
export {
  createPrefillEstimate,
  type ModelShape,
  type PrefillEstimateOptions,
  readModelShape,
} from './load/prefill-estimate.ts';
export { Overlaps, type PrefixIndex } from './prefix-index.ts';
export {
  type PolicyClass,
  type PolicyConfig,
  type PolicyProfile,
  profileFor,
  readPolicyConfig,
} from './queue/policy-config.ts';
export { RankTable } from './ranks.ts';
export { Scheduler, type SchedulerOptions } from './scheduler.ts';
export { SessionAffinity, type SessionAffinityOptions, type SessionTarget } from './scheduling-request.ts';
export { InFlight, type Pick, pickerFor } from './simple-router.ts';
export { createKeyedTracking, KEY_BYTES, type TrackingHash, type TrackingKey } from './tracking-hash.ts';
export type {
  Booking,
  Decision,
  DecisionReason,
  KvRouterObserver,
  PendingTotals,
  PotentialLoad,
  PrefillDurationModel,
  RankLoad,
  RankWeight,
  SchedulableWorker,
  SchedulerObserver,
  SchedulingOutcome,
  SchedulingRequest,
  SchedulingTicket,
} from './types.ts';
