/**
 * @module worker-events The reports of workers on their caches and their load: records and topics, and the followers of
 * both. `WorkerFeeds` applies KV events to a block index. `WorkerLoads` keeps the last load report of each rank.
 */
export { type ComponentScope, eventScopeOf, type FeedScope, scopeName } from './feed-scope.ts';
export { type EventSource, KvEventFeed, type RankPlace } from './kv-event-feed.ts';
export {
  type ActiveLoadRecord,
  type BlockChange,
  type BlockChangeSink,
  decodeRouterEvents,
  EVENTS_PER_MESSAGE_MAX,
  KV_EVENTS_TOPIC,
  LOAD_TOPIC,
  RESERVATION_HEADER,
  type RecoveryRequest,
  type RecoveryResponse,
  type RouterEventRecord,
  recoveryEndpoint,
} from './kv-events.ts';
export { RECOVERIES_AT_ONCE_MAX } from './rank-follower.ts';
export { RecoveryClient } from './recovery.ts';
export { TopicFollower } from './topic-follower.ts';
export { applyChange, indexSink, type OnApplied, type PlacedWorker, WorkerFeeds } from './worker-feeds.ts';
export { type BusyLimits, BusyWorkers, type LoadReport, WorkerLoads } from './worker-loads.ts';
