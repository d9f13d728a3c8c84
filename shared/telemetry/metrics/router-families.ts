import { type Buckets, logBounds } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';

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

/** Router that the series belong to. */
export interface RouterIdentity {
  readonly namespace: string;
  /** Hex: the label `router_id`, and `worker_id` too. */
  readonly routerId: string;
}

/** The router's metric families; what has no labels but those of the router is its one series. */
export type RouterFamilies = ReturnType<typeof defineRouterFamilies>;

export function defineRouterFamilies(registry: MetricRegistry, router: RouterIdentity, buckets: Buckets) {
  return {
    ...requestFamilies(registry, router, buckets),
    ...choiceFamilies(registry, router),
    ...overheadFamilies(registry, router),
    ...queueFamilies(registry),
    ...indexFamilies(registry, router),
  };
}

/** Labels that say where a metric of Dynamo's routers comes from. */
function placeOf({ namespace, routerId }: RouterIdentity) {
  return { dynamo_namespace: namespace, dynamo_component: 'router', worker_id: routerId };
}

function requestFamilies(registry: MetricRegistry, router: RouterIdentity, buckets: Buckets) {
  const own = { ...placeOf(router), router_id: router.routerId };
  const { counter, histogram } = registry.under('dynamo_component_router_', own);
  return {
    started: counter('requests_started_total', 'Requests that the router sent to a worker.').with(),
    ended: counter('requests_total', 'Requests that left their worker.').with(),
    ttft: histogram(
      'time_to_first_token_seconds',
      'Time from the decision to the first token.',
      logBounds(buckets.ttft),
    ).with(),
    itl: histogram(
      'inter_token_latency_seconds',
      'Time between output tokens, counted once a token.',
      logBounds(ROUTER_ITL),
    ).with(),
    inputTokens: histogram(
      'input_sequence_tokens',
      'Prompt tokens of a request.',
      logBounds(buckets.inputSequence),
      'model',
      'phase',
    ),
    outputTokens: histogram(
      'output_sequence_tokens',
      'Output tokens of a request that had any.',
      logBounds(buckets.outputSequence),
    ).with(),
  };
}

/** Families of what the choice of a worker made of caches. */
function choiceFamilies(registry: MetricRegistry, router: RouterIdentity) {
  const place = placeOf(router);
  const { counter, histogram } = registry.under('dynamo_component_router_', { ...place, router_id: router.routerId });
  const workers = registry.under('dynamo_component_router_worker_', place);
  return {
    hitRate: histogram(
      'kv_hit_rate',
      'Share of the prompt that the chosen worker was thought to have cached.',
      RATES,
    ).with(),
    sharedHitRate: histogram('shared_cache_hit_rate', 'Share of the prompt that the shared cache held.', RATES).with(),
    sharedBeyond: histogram(
      'shared_cache_beyond_blocks',
      'Blocks of the shared cache beyond those of the chosen worker.',
      powersOfTwo(12),
    ).with(),
    transfer: histogram(
      'kv_transfer_estimated_latency_seconds',
      'Time from the end of a remote prefill to the first token.',
      logBounds(TRANSFER),
    ).with(),
    nonMaxSelections: counter(
      'non_max_overlap_selections_total',
      'Decisions for another worker than the one with the most cached blocks.',
      'worker_type',
    ),
    overlapLost: histogram(
      'overlap_blocks_lost',
      'Cached blocks that such a decision gave up.',
      LOST_BLOCKS,
      'worker_type',
    ),
    bestCached: counter(
      'kv_best_eligible_cached_prefix_tokens_total',
      'Prompt tokens that the best eligible worker had cached.',
      'model',
      'phase',
    ),
    selectedCached: counter(
      'kv_selected_cached_prefix_tokens_total',
      'Prompt tokens that the chosen worker was thought to have cached.',
      'model',
      'phase',
    ),
    reused: counter(
      'kv_worker_reused_tokens_total',
      'Prompt tokens that the worker says it had cached.',
      'model',
      'phase',
    ),
    registered: workers.gauge(
      'registered',
      '1 for each rank that requests can be routed to.',
      'router_worker_id',
      'dp_rank',
      'worker_type',
    ),
  };
}

function overheadFamilies(registry: MetricRegistry, { routerId }: RouterIdentity) {
  const { histogram } = registry.under('dynamo_router_overhead_', { router_id: routerId });
  const overhead = (stage: string, help: string, bounds: readonly number[]) =>
    histogram(`${stage}_ms`, help, bounds).with();
  const families = {
    blockHashing: overhead('block_hashing', 'Milliseconds to name the blocks of a prompt.', HASHING_MS),
    seqHashing: overhead('seq_hashing', 'Milliseconds to chain those names; part of block_hashing here.', HASHING_MS),
    findMatches: overhead('indexer_find_matches', 'Milliseconds to look a prompt up in the index.', STAGES_MS),
    scheduling: overhead('scheduling', 'Milliseconds from there to the decision, without waiting.', STAGES_MS),
    total: overhead('total', 'Milliseconds of all of it.', STAGES_MS),
  };
  // There is no shared cache: both stay at zero.
  overhead('shared_cache_query', 'Milliseconds to ask the shared cache.', STAGES_MS);
  registry
    .under('dynamo_router_', { router_id: routerId })
    .counter('shared_cache_errors_total', 'Questions that the shared cache did not answer.');
  return families;
}

function queueFamilies(registry: MetricRegistry) {
  const { counter, gauge } = registry.under('dynamo_frontend_router_');
  const labels = ['model', 'worker_type', 'policy_class'];
  return {
    pendingRequests: gauge('queue_pending_requests', 'Requests that wait for a worker.', ...labels),
    pendingIslTokens: gauge('queue_pending_isl_tokens', 'Their prompt tokens.', ...labels),
    pendingCachedTokens: gauge('queue_pending_cached_tokens', 'Those of them that some worker has cached.', ...labels),
    backpressure: counter(
      'queue_backpressure_total',
      'Requests turned away because of the queue.',
      ...labels,
      'reason',
    ),
    admissionReceived: counter('admission_received_total', 'Requests that asked the router for a worker.', ...labels),
    admissionRejected: counter('admission_rejected_total', 'Those that it turned away.', ...labels, 'reason'),
  };
}

function indexFamilies(registry: MetricRegistry, router: RouterIdentity) {
  const events = registry.under('dynamo_component_kv_cache_', placeOf(router));
  const { counter, gauge } = registry.under('stator_router_');
  return {
    applied: events.counter('events_applied', 'KV events that reached the index.', 'event_type', 'status'),
    warnings: events.counter('event_warnings', 'KV events that changed nothing.', 'warning_kind'),
    skippedEvents: counter('kv_events_skipped_total', 'KV events that could not be used.', 'reason'),
    staleEvents: counter('kv_events_stale_total', 'KV events that came twice or too late.').with(),
    droppedEvents: counter(
      'kv_events_dropped_total',
      'KV events that did not wait for the end of a recovery, and were asked for again.',
    ).with(),
    forgottenBookings: counter(
      'peer_bookings_unremembered_total',
      'Requests of other routers beyond those that are remembered: only that router, or time, frees them.',
    ).with(),
    unattributed: gauge(
      'unattributed_requests',
      'Requests at the workers, by their word, that this router did not send and was not told of.',
    ).with(),
    recoveries: counter('kv_recoveries_total', 'Questions to workers for missed KV events.', 'kind', 'outcome'),
    indexBlocks: gauge('index_blocks', 'Blocks in the index of a model.', 'model'),
    indexBytes: gauge('index_bytes', 'Memory taken by the index of a model.', 'model'),
    indexBytesAllowed: gauge(
      'index_bytes_allowed',
      'Memory that the index of a model may take as long as the others take what they do.',
      'model',
    ),
    evictedBlocks: counter('index_evicted_blocks_total', 'Blocks that left an index because it was full.', 'model'),
  };
}
