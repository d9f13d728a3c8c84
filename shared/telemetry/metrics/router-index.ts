import type { Counter, MetricRegistry } from './registry.ts';
import { placeOf, type RouterIdentity } from './router-labels.ts';

export type KvEventType = 'stored' | 'removed' | 'cleared';

const EVENT_TYPES: readonly KvEventType[] = ['stored', 'removed', 'cleared'];
const STATUSES = [
  'ok',
  'parent_block_not_found',
  'block_not_found',
  'invalid_block',
  'capacity_exhausted',
  'unsupported_residency_domain',
];

/** Counts KV events, and shows the size of the block indexes. @param isKvMode whether there are indexes */
export function createRouterIndex(registry: MetricRegistry, router: RouterIdentity, isKvMode: boolean) {
  const events = registry.under('dynamo_component_kv_cache_', placeOf(router));
  const { counter, gauge } = registry.under('stator_router_');
  const appliedEvents = events.counter('events_applied', 'KV events that reached the index.', 'event_type', 'status');
  const warnings = events.counter('event_warnings', 'KV events that changed nothing.', 'warning_kind');
  const skippedEvents = counter('kv_events_skipped_total', 'KV events that could not be used.', 'reason');
  const staleEvents = counter('kv_events_stale_total', 'KV events that came twice or too late.').with();
  const droppedEvents = counter(
    'kv_events_dropped_total',
    'KV events that did not wait for the end of a recovery, and were asked for again.',
  ).with();
  const forgottenBookings = counter(
    'peer_bookings_unremembered_total',
    'Requests of other routers beyond those that are remembered: only that router, or time, frees them.',
  ).with();
  const unattributed = gauge(
    'unattributed_requests',
    'Requests at the workers, by their word, that this router did not send and was not told of.',
  ).with();
  const recoveries = counter('kv_recoveries_total', 'Questions to workers for missed KV events.', 'kind', 'outcome');
  const indexBlocks = gauge('index_blocks', 'Blocks in the index of a model.', 'model');
  const indexBytes = gauge('index_bytes', 'Memory taken by the index of a model.', 'model');
  const indexBytesAllowed = gauge(
    'index_bytes_allowed',
    'Memory that the index of a model may take as long as the others take what they do.',
    'model',
  );
  const evictedBlocks = counter(
    'index_evicted_blocks_total',
    'Blocks that left an index because it was full.',
    'model',
  );
  const applied = new Map<string, Counter>();
  if (isKvMode) {
    for (const type of EVENT_TYPES) {
      for (const status of STATUSES) applied.set(`${type} ${status}`, appliedEvents.with(type, status));
    }
    warnings.with('duplicate_store');
  }
  return {
    pool: (model: string) => ({
      indexBlocks: (blocks: number) => indexBlocks.with(model).set(blocks),
      /** Memory taken for them. */
      indexBytes: (bytes: number) => indexBytes.with(model).set(bytes),
      /** Sets the memory that it may take while the other indexes of the process keep theirs. */
      indexBytesAllowed: (bytes: number) => indexBytesAllowed.with(model).set(bytes),
      indexEvicted: (blocks: number) => evictedBlocks.with(model).add(blocks),
    }),
    applied: (type: KvEventType, status: string) => applied.get(`${type} ${status}`)?.add(),
    /** Blocks stored where they were held already, since the start. */
    duplicates(total: number): void {
      warnings.with('duplicate_store').value = total;
    },
    skipped: (reason: string) => skippedEvents.with(reason).add(),
    stale: () => staleEvents.add(),
    dropped: () => droppedEvents.add(),
    recovered: (kind: 'restore' | 'gap', outcome: 'ok' | 'failed') => recoveries.with(kind, outcome).add(),
    /** Another router booked a request that is not remembered, as too many are. */
    peerBookingUnremembered: () => forgottenBookings.add(),
    /** Requests at the workers that neither this router nor one that it hears of has sent. */
    unattributedRequests: (requests: number) => unattributed.set(requests),
  };
}
