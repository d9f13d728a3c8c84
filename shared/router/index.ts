/**
 * @module router
 * Which worker takes a request, behind one `choose()` seam: `SimpleRouter` for the modes that know nothing of caches, `KvRouter`
 * for mode `kv`, `ResidentRouter` where another process is asked, `StatelessRouter` where hashing alone decides. Below them what
 * each worker has cached and how loaded it is, what workers say of both, and what routers share without a server
 * (docs/router-state.md says who writes what, and what it costs).
 */
export { ApproximateIndex, type ApproximateIndexOptions, predictingIndex } from './block-index/approximate-index.ts';
export { BlockIndex } from './block-index/block-index.ts';
export { IndexMemory } from './block-index/memory.ts';
export type { HashPair, StoredRun } from './block-index/types.ts';
export type { BlockChangeSink, ComponentScope, EventSource } from './feed/kv-event-feed.ts';
export {
  type ActiveLoadRecord,
  type BlockChange,
  decodeRouterEvents,
  EVENTS_PER_MESSAGE_MAX,
  KV_EVENTS_TOPIC,
  LOAD_TOPIC,
  RESERVATION_HEADER,
  type RecoveryRequest,
  type RecoveryResponse,
  type RouterEventRecord,
  recoveryEndpoint,
} from './feed/kv-events.ts';
export { RECOVERIES_AT_ONCE_MAX } from './feed/rank-follower.ts';
export { RecoveryClient } from './feed/recovery.ts';
export { TopicFollower } from './feed/topic-follower.ts';
export { applyChange, indexSink, type OnApplied, type PlacedWorker, WorkerFeeds } from './feed/worker-feeds.ts';
export { type BusyLimits, BusyWorkers, type LoadReport, WorkerLoads } from './feed/worker-loads.ts';
export { RouterLine } from './grpc/router-line.ts';
export { serveRouterGrpc } from './grpc/router-server.ts';
export { InitialWorkers } from './initial-workers.ts';
export { createAskMetrics, WorkerAsker } from './quotes/ask-workers.ts';
export {
  type ClaimAnswer,
  decodeQuestion,
  encodeClaimAnswer,
  encodeQuotes,
  type HeldPlace,
  type HoldTerms,
  PlaceBook,
  type PlaceClaim,
  QUOTE_ENDPOINT,
  type QuotedRank,
} from './quotes/claims.ts';
export { bestQuote, CLAIMS_MAX, placeOn, type RankQuote, termsOf } from './quotes/weigh-quotes.ts';
export { keyOfText, RendezvousShare } from './rendezvous.ts';
export {
  type HashedPrompt,
  type PoolRole,
  type PromptHome,
  poolName,
  type RankId,
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
} from './scheduler/disaggregation.ts';
export { Inhibition } from './scheduler/eligibility.ts';
export { type CandidateRecord, type ExplanationRecord, renderExplanation } from './scheduler/explanation-record.ts';
export {
  defaultKvRouterConfig,
  type KvRouterConfig,
  KvRouterConfigError,
  loadAware,
  prefillPoolConfig,
  QUEUE_THRESHOLD,
} from './scheduler/kv-config.ts';
export { kvRouterConfigOf } from './scheduler/kv-config-sources.ts';
export { type KvPool, KvRouter, type PeerTeller } from './scheduler/kv-router.ts';
export { ActiveLoad } from './scheduler/load/active-load.ts';
export { createPrefillEstimate, readModelShape } from './scheduler/load/prefill-estimate.ts';
export { Overlaps, type PrefixIndex } from './scheduler/prefix-index.ts';
export {
  type PolicyConfig,
  type PolicyProfile,
  profileFor,
} from './scheduler/queue/policy-config.ts';
export { parsePolicyConfig } from './scheduler/queue/policy-file.ts';
export { RankTable } from './scheduler/ranks.ts';
export { Scheduler } from './scheduler/scheduler.ts';
export { SessionAffinity, type SessionAffinityOptions } from './scheduler/scheduling-request.ts';
export { InFlight, type Pick, pickerFor, SimpleRouter } from './scheduler/simple-router.ts';
export { createKeyedTracking, KEY_BYTES, type TrackingHash } from './scheduler/tracking-hash.ts';
export type { Decision, PotentialLoad, PrefillDurationModel, RankLoad, SchedulingRequest } from './scheduler/types.ts';
export { createResidentMetrics, ResidentService } from './service/choose-service.ts';
export { type PresentPool, queryOf, ROUTER_COMPONENT, WELL_KNOWN_INSTANCE } from './service/messages.ts';
export {
  type RouterEndpoint,
  type ServedIndex,
  serveEndpoints,
  serveIndexOnPlane,
  serveRouterOnPlane,
} from './service/plane-service.ts';
export {
  askIndex,
  askingRouter,
  createRemoteIndexMetrics,
  INDEX_RECORD_ENDPOINT,
  type IndexerAddress,
  RemoteIndex,
  type RemoteIndexObserver,
  watchIndexers,
} from './service/remote-index.ts';
export { ResidentClient } from './service/resident-client.ts';
export { createFallbackMetrics, ResidentRouter } from './service/resident-router.ts';
export { type ResidentAddress, type ResidentLine, watchResidents, watchResidentUrls } from './service/residents.ts';
export { DynamoDbRouterState } from './state/dynamodb-router-state.ts';
export { FileRouterState } from './state/file-router-state.ts';
export { LeaseHolder } from './state/lease-holder.ts';
export {
  ACTIVE_SEQUENCES_TOPIC,
  type ActiveSequenceChange,
  type ActiveSequenceEvent,
  ReplicaSync,
  replicaBookings,
} from './state/replica-sync.ts';
export type { RouterState } from './state/router-state.ts';
export { ComponentIndex, type ComponentPool } from './state/snapshots/component-index.ts';
export { createNatsSnapshotStore, snapshotBucketOf } from './state/snapshots/nats-snapshot-store.ts';
export type { SnapshotStore } from './state/snapshots/snapshot.ts';
export { REPORT_AGE_S, UnattributedLoad } from './state/unattributed-load.ts';
export {
  type AskOptions,
  StatelessDecider,
  type StatelessRequest,
  StatelessRouter,
} from './stateless/stateless-router.ts';
