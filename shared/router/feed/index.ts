/**
 * @module router/feed
 * Keeps block indexes equal to what workers hold, from their events: reads both forms of events, notices loss, asks the
 * worker for what was missed. Also the loads that workers report.
 */

export type {
  BlockChangeSink,
  ComponentScope,
  EventSource,
  FeedObserver,
  FeedSurroundings,
  FollowedWorker,
  RankPlace,
} from './kv-event-feed.ts';
export {
  type ActiveLoadRecord,
  type BlockChange,
  decodeRouterEvent,
  decodeRouterEvents,
  EVENTS_PER_MESSAGE_MAX,
  KV_EVENTS_TOPIC,
  LOAD_TOPIC,
  type PlainStored,
  type RankEvent,
  RESERVATION_HEADER,
  type RecoveryRequest,
  type RecoveryResponse,
  type RouterEventRecord,
  recoveryEndpoint,
  type SkipReason,
} from './kv-events.ts';
export { RankFollower, type RankFollowerOptions, RECOVERIES_AT_ONCE_MAX, type RecoveryKind } from './rank-follower.ts';
export { type RecoveryAnswer, RecoveryClient, type RecoveryClientOptions } from './recovery.ts';
export { TopicFollower, type TopicFollowerOptions } from './topic-follower.ts';
export {
  applyChange,
  indexSink,
  type OnApplied,
  type PlacedWorker,
  WorkerFeeds,
  type WorkerFeedsOptions,
} from './worker-feeds.ts';
export { type BusyLimits, BusyWorkers, type LoadReport, WorkerLoads } from './worker-loads.ts';
