/**
 * @module scheduler Chooses the worker of a request: `SimpleRouter` for the modes that do not look at caches,
 * `KvRouter` for mode `kv`, with eligibility, cost, load and the queue of requests for busy workers.
 */
export { SHARED_PASS_TOKENS, SHORT_BACKLOG_TOKENS, uncachedTokens } from './cost.ts';
export {
  BYPASS_ANNOTATION,
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
} from './disaggregation.ts';
export { eligibleWorkers, Inhibition, pinnedIn, rankIn } from './eligibility.ts';
export {
  type CandidateRecord,
  type ExplanationRecord,
  renderExplanation,
  type WorkerSetRecord,
} from './explanation-record.ts';
export {
  defaultKvRouterConfig,
  type KvRouterConfig,
  KvRouterConfigError,
  loadAware,
  prefillPoolConfig,
  QUEUE_THRESHOLD,
} from './kv-config.ts';
export { kvRouterConfigOf } from './kv-config-sources.ts';
export { type KvPool, KvRouter, type PeerTeller } from './kv-router.ts';
export { ActiveLoad } from './load/active-load.ts';
export { createPrefillEstimate, readModelShape } from './load/prefill-estimate.ts';
export { type PolicyConfig, type PolicyProfile, profileFor } from './queue/policy-config.ts';
export { parsePolicyConfig } from './queue/policy-file.ts';
export { RendezvousShare } from './replica-share.ts';
export { Scheduler } from './scheduler.ts';
export { hashedPrompt, SessionAffinity, type SessionAffinityOptions } from './scheduling-request.ts';
export { InFlight, type Pick, pickerFor, SimpleRouter } from './simple-router.ts';
export { laterWeight } from './stator-cost.ts';
export { createKeyedTracking, KEY_BYTES, type TrackingHash } from './tracking-hash.ts';
export type {
  Decision,
  PotentialLoad,
  PrefillDurationModel,
  QueuePlace,
  RankLoad,
  RankWeight,
  SchedulingOutcome,
  SchedulingRequest,
} from './types.ts';
