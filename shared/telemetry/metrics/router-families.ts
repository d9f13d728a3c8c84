import type { Logger } from '../log/logger.ts';
import { type BucketOverrides, bucketBounds, logBounds } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';

/** Labels of what one router counts: `dynamo_component` is always `router`, `worker_id` is the router's own id. */
export const ROUTER_LABELS = ['dynamo_namespace', 'dynamo_component', 'router_id', 'worker_id'] as const;
const BY_MODEL = [...ROUTER_LABELS, 'model', 'phase'];
const QUEUE_LABELS = ['model', 'worker_type', 'policy_class'];

/** Inter-token latency has a shorter range here than on the frontend's own metric. */
const ROUTER_ITL = { min: 0.001, max: 2, count: 13 };
const TRANSFER = { min: 0.001, max: 10, count: 15 };
const LOST_BLOCKS = [0.25, 0.5, ...powersOfTwo(14)];
const RATES = Array.from({ length: 21 }, (_, step) => step * 0.05);
const HASHING_MS = Array.from({ length: 15 }, (_, step) => 0.001 * 2 ** step);
const STAGES_MS = Array.from({ length: 17 }, (_, step) => 0.01 * 3 ** step);

function powersOfTwo(count: number): number[] {
  return Array.from({ length: count }, (_, power) => 2 ** power);
}

/** The router's metric families. */
export type RouterFamilies = ReturnType<typeof requestFamilies> &
  ReturnType<typeof overheadFamilies> &
  ReturnType<typeof queueFamilies> &
  ReturnType<typeof indexFamilies>;

export function defineRouterFamilies(
  registry: MetricRegistry,
  options: { readonly buckets: BucketOverrides; readonly logger: Logger },
): RouterFamilies {
  return {
    ...requestFamilies(registry, options.buckets, options.logger),
    ...overheadFamilies(registry),
    ...queueFamilies(registry),
    ...indexFamilies(registry),
  };
}

function requestFamilies(registry: MetricRegistry, buckets: BucketOverrides, logger: Logger) {
  const name = (rest: string): string => `dynamo_component_router_${rest}`;
  const counter = (rest: string, help: string, labels: readonly string[] = ROUTER_LABELS) =>
    registry.counter(name(rest), help, labels);
  const histogram = (
    rest: string,
    help: string,
    bounds: readonly number[],
    labels: readonly string[] = ROUTER_LABELS,
  ) => registry.histogram(name(rest), help, bounds, labels);
  const withType = [...ROUTER_LABELS, 'worker_type'];
  return {
    started: counter('requests_started_total', 'Requests that the router sent to a worker.'),
    ended: counter('requests_total', 'Requests that left their worker.'),
    ttft: histogram(
      'time_to_first_token_seconds',
      'Time from the decision to the first token.',
      bucketBounds('ttft', buckets, logger),
    ),
    itl: histogram(
      'inter_token_latency_seconds',
      'Time between output tokens, counted once a token.',
      logBounds(ROUTER_ITL),
    ),
    inputTokens: histogram(
      'input_sequence_tokens',
      'Prompt tokens of a request.',
      bucketBounds('inputSequence', buckets, logger),
      BY_MODEL,
    ),
    outputTokens: histogram(
      'output_sequence_tokens',
      'Output tokens of a request that had any.',
      bucketBounds('outputSequence', buckets, logger),
    ),
    hitRate: histogram('kv_hit_rate', 'Share of the prompt that the chosen worker was thought to have cached.', RATES),
    sharedHitRate: histogram('shared_cache_hit_rate', 'Share of the prompt that the shared cache held.', RATES),
    sharedBeyond: histogram(
      'shared_cache_beyond_blocks',
      'Blocks of the shared cache beyond those of the chosen worker.',
      powersOfTwo(12),
    ),
    transfer: histogram(
      'kv_transfer_estimated_latency_seconds',
      'Time from the end of a remote prefill to the first token.',
      logBounds(TRANSFER),
    ),
    nonMaxSelections: counter(
      'non_max_overlap_selections_total',
      'Decisions for another worker than the one with the most cached blocks.',
      withType,
    ),
    overlapLost: histogram('overlap_blocks_lost', 'Cached blocks that such a decision gave up.', LOST_BLOCKS, withType),
    bestCached: counter(
      'kv_best_eligible_cached_prefix_tokens_total',
      'Prompt tokens that the best eligible worker had cached.',
      BY_MODEL,
    ),
    selectedCached: counter(
      'kv_selected_cached_prefix_tokens_total',
      'Prompt tokens that the chosen worker was thought to have cached.',
      BY_MODEL,
    ),
    reused: counter('kv_worker_reused_tokens_total', 'Prompt tokens that the worker says it had cached.', BY_MODEL),
    registered: registry.gauge(name('worker_registered'), '1 for each rank that requests can be routed to.', [
      'dynamo_namespace',
      'dynamo_component',
      'worker_id',
      'router_worker_id',
      'dp_rank',
      'worker_type',
    ]),
  };
}

function overheadFamilies(registry: MetricRegistry) {
  const overhead = (stage: string, help: string, bounds: readonly number[]) =>
    registry.histogram(`dynamo_router_overhead_${stage}_ms`, help, bounds, ['router_id']);
  return {
    blockHashing: overhead('block_hashing', 'Milliseconds to name the blocks of a prompt.', HASHING_MS),
    seqHashing: overhead('seq_hashing', 'Milliseconds to chain those names; part of block_hashing here.', HASHING_MS),
    findMatches: overhead('indexer_find_matches', 'Milliseconds to look a prompt up in the index.', STAGES_MS),
    scheduling: overhead('scheduling', 'Milliseconds from there to the decision, without waiting.', STAGES_MS),
    total: overhead('total', 'Milliseconds of all of it.', STAGES_MS),
    sharedQuery: overhead('shared_cache_query', 'Milliseconds to ask the shared cache.', STAGES_MS),
    sharedErrors: registry.counter(
      'dynamo_router_shared_cache_errors_total',
      'Questions that the shared cache did not answer.',
      ['router_id'],
    ),
  };
}

function queueFamilies(registry: MetricRegistry) {
  const name = (rest: string): string => `dynamo_frontend_router_${rest}`;
  const gauge = (rest: string, help: string) => registry.gauge(name(`queue_${rest}`), help, QUEUE_LABELS);
  return {
    pendingRequests: gauge('pending_requests', 'Requests that wait for a worker.'),
    pendingIslTokens: gauge('pending_isl_tokens', 'Their prompt tokens.'),
    pendingCachedTokens: gauge('pending_cached_tokens', 'Those of them that some worker has cached.'),
    backpressure: registry.counter(name('queue_backpressure_total'), 'Requests turned away because of the queue.', [
      ...QUEUE_LABELS,
      'reason',
    ]),
    admissionReceived: registry.counter(
      name('admission_received_total'),
      'Requests that asked the router for a worker.',
      QUEUE_LABELS,
    ),
    admissionRejected: registry.counter(name('admission_rejected_total'), 'Those that it turned away.', [
      ...QUEUE_LABELS,
      'reason',
    ]),
  };
}

function indexFamilies(registry: MetricRegistry) {
  const labels = ['dynamo_namespace', 'dynamo_component', 'worker_id'];
  return {
    applied: registry.counter('dynamo_component_kv_cache_events_applied', 'KV events that reached the index.', [
      ...labels,
      'event_type',
      'status',
    ]),
    warnings: registry.counter('dynamo_component_kv_cache_event_warnings', 'KV events that changed nothing.', [
      ...labels,
      'warning_kind',
    ]),
    skippedEvents: registry.counter('stator_router_kv_events_skipped_total', 'KV events that could not be used.', [
      'reason',
    ]),
    staleEvents: registry.counter('stator_router_kv_events_stale_total', 'KV events that came twice or too late.'),
    droppedEvents: registry.counter(
      'stator_router_kv_events_dropped_total',
      'KV events that did not wait for the end of a recovery, and were asked for again.',
    ),
    forgottenBookings: registry.counter(
      'stator_router_peer_bookings_unremembered_total',
      'Requests of other routers beyond those that are remembered: nobody but that router, or time, frees them.',
    ),
    unattributed: registry.gauge(
      'stator_router_unattributed_requests',
      'Requests at the workers, by their word, that this router did not send and was not told of.',
    ),
    recoveries: registry.counter('stator_router_kv_recoveries_total', 'Questions to workers for missed KV events.', [
      'kind',
      'outcome',
    ]),
    indexBlocks: registry.gauge('stator_router_index_blocks', 'Blocks in the index of a model.', ['model']),
    indexBytes: registry.gauge('stator_router_index_bytes', 'Memory taken by the index of a model.', ['model']),
    indexBytesAllowed: registry.gauge(
      'stator_router_index_bytes_allowed',
      'Memory that the index of a model may take as long as the others take what they do.',
      ['model'],
    ),
    evictedBlocks: registry.counter(
      'stator_router_index_evicted_blocks_total',
      'Blocks that left an index because it was full.',
      ['model'],
    ),
  };
}
