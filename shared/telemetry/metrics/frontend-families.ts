import { type Buckets, logBounds, stepBounds } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';

const TOKENIZER_LATENCY_MS = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const TEMPLATE_SECONDS = [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05];
const MIGRATION_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60];
const EVENT_LOOP_DELAY_SECONDS = [0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

const ROUTE_LABELS = ['model', 'endpoint', 'request_type'];
const WORKER_LABELS = ['worker_id', 'dp_rank', 'worker_type'];

/** The frontend's metric families by what they count. */
export type FrontendFamilies = ReturnType<typeof defineFrontendFamilies>;

export function defineFrontendFamilies(registry: MetricRegistry, buckets: Buckets) {
  return {
    ...requestFamilies(registry, buckets),
    ...modelFamilies(registry),
    ...workerFamilies(registry),
    ...stageFamilies(registry),
  };
}

function requestFamilies(registry: MetricRegistry, buckets: Buckets) {
  const { counter, gauge, histogram } = registry.under('dynamo_frontend_');
  const own = registry.under('stator_frontend_');
  const byModel = (name: string, help: string, set: keyof Buckets) =>
    histogram(name, help, logBounds(buckets[set]), 'model');
  return {
    requests: counter(
      'requests_total',
      'Requests that ended, by how they ended.',
      ...ROUTE_LABELS,
      'status',
      'error_type',
    ),
    started: counter('requests_started_total', 'Requests that a handler took on.', ...ROUTE_LABELS),
    inflight: gauge('inflight_requests', 'Deprecated: the same as active_requests.', 'model'),
    active: gauge(
      'active_requests',
      'Requests between the entry of the handler and the end of the response body.',
      'model',
    ),
    queued: gauge('queued_requests', 'Requests between the entry of the handler and the first token.', 'model'),
    limitsReached: own.counter(
      'limits_reached_total',
      'Requests, or what workers made of them, that went beyond a limit.',
      'limit',
    ),
    handlerFailures: own
      .counter(
        'handler_failures_total',
        'Requests that a fault of our own ended before they were counted as requests of a model.',
      )
      .with(),
    websockets: own.gauge('websockets', 'WebSockets that are open.').with(),
    disconnected: gauge('disconnected_clients', 'Clients that left before the response had ended.'),
    ignoredKeys: own.counter(
      'ignored_keys_total',
      'Requests with a root key that their route does not know, by that key; `other` for keys of no API.',
      'endpoint',
      'key',
    ),
    leftOut: own.counter(
      'left_out_total',
      'Requests of which the model was not told something: hosted tools, parts of the history, parameters, pictures of tools.',
      'endpoint',
      'kind',
    ),
    failures: counter('failures_total', 'Failures by class and reason.', 'class', 'reason'),
    duration: byModel(
      'request_duration_seconds',
      'Time from the entry of the handler to the end of the response body.',
      'requestDuration',
    ),
    inputTokens: byModel('input_sequence_tokens', 'Prompt tokens of a request.', 'inputSequence'),
    outputLength: byModel('output_sequence_tokens', 'Output tokens of a request that had any.', 'outputSequence'),
    cachedTokens: byModel('cached_tokens', 'Prompt tokens that the worker had cached.', 'inputSequence'),
    outputTokens: counter('output_tokens_total', 'Output tokens so far.', 'model'),
    ttft: byModel('time_to_first_token_seconds', 'Time from the entry of the handler to the first token.', 'ttft'),
    itl: byModel('inter_token_latency_seconds', 'Time between output tokens, counted once a token.', 'itl'),
    embeddingLatency: byModel(
      'embedding_latency_seconds',
      'Time that an embeddings request took, when it succeeded.',
      'embeddingLatency',
    ),
    cancellations: counter('model_cancellation_total', 'Requests cancelled before they had ended.', ...ROUTE_LABELS),
    rejections: counter(
      'model_rejection_total',
      'Requests turned away because every worker was full.',
      'model',
      'endpoint',
    ),
  };
}

function modelFamilies(registry: MetricRegistry) {
  const { counter, gauge, histogram } = registry.under('dynamo_frontend_model_');
  return {
    totalKvBlocks: gauge('total_kv_blocks', 'KV blocks of one worker of the model.', 'model'),
    maxNumSeqs: gauge('max_num_seqs', 'Sequences that one worker of the model runs at once.', 'model'),
    maxNumBatchedTokens: gauge(
      'max_num_batched_tokens',
      'Tokens that one worker of the model computes in one step.',
      'model',
    ),
    contextLength: gauge('context_length', 'Context length of the model in tokens.', 'model'),
    kvCacheBlockSize: gauge('kv_cache_block_size', 'Tokens in a KV block of the model.', 'model'),
    migrationLimit: gauge('migration_limit', 'Times that a request of the model may move to another worker.', 'model'),
    ready: gauge('ready', '1 while every worker role that the model needs is present.', 'model'),
    migrations: counter('migration_total', 'Requests that moved to another worker.', 'model', 'migration_type'),
    migrationDuration: histogram(
      'migration_duration_seconds',
      'Time from the failure of a worker until another has taken the request, or nobody has.',
      MIGRATION_SECONDS,
      'model',
      'migration_type',
      'outcome',
    ),
    migrationTooLong: counter(
      'migration_max_seq_len_exceeded_total',
      'Requests that had grown too long to be moved.',
      'model',
    ),
  };
}

function workerFamilies(registry: MetricRegistry) {
  const worker = registry.under('dynamo_frontend_worker_');
  const gauge = (name: string, help: string) => worker.gauge(name, help, ...WORKER_LABELS);
  return {
    workerDecodeBlocks: gauge('active_decode_blocks', 'KV blocks in use on the worker.'),
    workerPrefillTokens: gauge('active_prefill_tokens', 'Prompt tokens that the worker has yet to compute.'),
    workerLastTtft: gauge('last_time_to_first_token_seconds', 'Time to first token of the last request.'),
    workerLastInputTokens: gauge('last_input_sequence_tokens', 'Prompt tokens of the last request.'),
    workerLastItl: gauge('last_inter_token_latency_seconds', 'Inter-token latency of the last request.'),
  };
}

function stageFamilies(registry: MetricRegistry) {
  const { counter, gauge, histogram } = registry.under('dynamo_frontend_');
  const stages = stepBounds(0.0001, 5);
  return {
    stageRequests: gauge('stage_requests', 'Requests that are in a stage.', 'stage', 'phase'),
    stageDuration: histogram('stage_duration_seconds', 'Time that a request spent in a stage.', stages, 'stage'),
    tokenize: histogram('tokenize_seconds', 'Time to tokenize a prompt.', stepBounds(0.0001, 1)).with(),
    template: histogram('template_seconds', 'Time to render a chat template.', TEMPLATE_SECONDS).with(),
    detokenizeUs: counter('detokenize_total_us', 'Microseconds spent turning tokens into text.').with(),
    detokenizeTokens: counter('detokenize_token_count', 'Tokens turned into text.').with(),
    tokenizerLatency: histogram(
      'tokenizer_latency_ms',
      'Milliseconds to tokenize a prompt, or to detokenize one token on average over a request.',
      TOKENIZER_LATENCY_MS,
      'operation',
    ),
    cacheHits: counter('tokenizer_cache_hits_total', 'Prompts with a cached tokenized prefix.').with(),
    cacheMisses: counter('tokenizer_cache_misses_total', 'Prompts without one.').with(),
    cachedPromptTokens: counter(
      'tokenizer_cache_cached_tokens_total',
      'Prompt tokens taken from the tokenizer cache.',
      'model',
    ),
    uncachedPromptTokens: counter(
      'tokenizer_cache_uncached_tokens_total',
      'Prompt tokens that had to be tokenized.',
      'model',
    ),
    eventLoopDelay: histogram(
      'event_loop_delay_seconds',
      'How late a timer of 10 ms fired.',
      EVENT_LOOP_DELAY_SECONDS,
    ).with(),
    eventLoopStalls: counter('event_loop_stall_total', 'Timers of 10 ms that fired over 5 ms late.').with(),
    uptime: registry.gauge('dynamo_component_uptime_seconds', 'Seconds since the process started to count.').with(),
  };
}
