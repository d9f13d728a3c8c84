import type { Logger } from '../log/logger.ts';
import { type BucketOverrides, type BucketSet, bucketBounds, stepBounds } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';

/** Prefix of the metrics that `DYN_METRICS_PREFIX` does not move. */
const FIXED_PREFIX = 'dynamo_frontend';

const TOKENIZER_LATENCY_MS = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const TEMPLATE_SECONDS = [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05];
const MIGRATION_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60];
const EVENT_LOOP_DELAY_SECONDS = [0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];

const ROUTE_LABELS = ['model', 'endpoint', 'request_type'];
const WORKER_LABELS = ['worker_id', 'dp_rank', 'worker_type'];

/** Turns what an operator wrote into a legal metric prefix: `my-pre.fix` becomes `my_pre_fix`; nothing usable, the default. */
export function metricPrefix(text: string | undefined): string {
  const legal = (text ?? '').replaceAll(/[^a-zA-Z0-9_:]/g, '_').replace(/^(?=[0-9])/, '_');
  return /^_*$/.test(legal) ? FIXED_PREFIX : legal;
}

/** The frontend's metric families by what they count. */
export type FrontendFamilies = ReturnType<typeof requestFamilies> &
  ReturnType<typeof modelFamilies> &
  ReturnType<typeof workerFamilies> &
  ReturnType<typeof stageFamilies>;

export function defineFrontendFamilies(
  registry: MetricRegistry,
  options: { readonly prefix: string | undefined; readonly buckets: BucketOverrides; readonly logger: Logger },
): FrontendFamilies {
  const prefix = metricPrefix(options.prefix);
  const bounds = (set: BucketSet): readonly number[] => bucketBounds(set, options.buckets, options.logger);
  return {
    ...requestFamilies(registry, prefix, bounds),
    ...modelFamilies(registry, prefix),
    ...workerFamilies(registry),
    ...stageFamilies(registry, prefix),
  };
}

type Bounds = (set: BucketSet) => readonly number[];

function requestFamilies(registry: MetricRegistry, prefix: string, bounds: Bounds) {
  const byModel = ['model'];
  const counter = (name: string, help: string, labels = byModel) => registry.counter(`${prefix}_${name}`, help, labels);
  const gauge = (name: string, help: string, labels = byModel) => registry.gauge(`${prefix}_${name}`, help, labels);
  const histogram = (name: string, help: string, set: BucketSet) =>
    registry.histogram(`${prefix}_${name}`, help, bounds(set), byModel);
  return {
    requests: counter('requests_total', 'Requests that ended, by how they ended.', [
      ...ROUTE_LABELS,
      'status',
      'error_type',
    ]),
    started: counter('requests_started_total', 'Requests that a handler took on.', ROUTE_LABELS),
    inflight: gauge('inflight_requests', 'Deprecated: the same as active_requests.'),
    active: gauge('active_requests', 'Requests between the entry of the handler and the end of the response body.'),
    queued: gauge('queued_requests', 'Requests between the entry of the handler and the first token.'),
    limitsReached: registry.counter(
      'stator_frontend_limits_reached_total',
      'Requests, or what workers made of them, that went beyond a limit.',
      ['limit'],
    ),
    disconnected: gauge('disconnected_clients', 'Clients that left before the response had ended.', []),
    ignoredKeys: registry.counter(
      'stator_frontend_ignored_keys_total',
      'Requests with a root key that their route does not know, by that key; `other` for keys of no API.',
      ['endpoint', 'key'],
    ),
    failures: counter('failures_total', 'Failures by class and reason.', ['class', 'reason']),
    duration: histogram(
      'request_duration_seconds',
      'Time from the entry of the handler to the end of the response body.',
      'requestDuration',
    ),
    inputTokens: histogram('input_sequence_tokens', 'Prompt tokens of a request.', 'inputSequence'),
    outputLength: histogram('output_sequence_tokens', 'Output tokens of a request that had any.', 'outputSequence'),
    cachedTokens: histogram('cached_tokens', 'Prompt tokens that the worker had cached.', 'inputSequence'),
    outputTokens: counter('output_tokens_total', 'Output tokens so far.'),
    ttft: histogram('time_to_first_token_seconds', 'Time from the entry of the handler to the first token.', 'ttft'),
    itl: histogram('inter_token_latency_seconds', 'Time between output tokens, counted once a token.', 'itl'),
    embeddingLatency: histogram(
      'embedding_latency_seconds',
      'Time that an embeddings request took, when it succeeded.',
      'embeddingLatency',
    ),
    cancellations: counter('model_cancellation_total', 'Requests cancelled before they had ended.', ROUTE_LABELS),
    rejections: counter('model_rejection_total', 'Requests turned away because every worker was full.', [
      'model',
      'endpoint',
    ]),
  };
}

function modelFamilies(registry: MetricRegistry, prefix: string) {
  const gauge = (name: string, help: string) => registry.gauge(`${prefix}_model_${name}`, help, ['model']);
  return {
    totalKvBlocks: gauge('total_kv_blocks', 'KV blocks of one worker of the model.'),
    maxNumSeqs: gauge('max_num_seqs', 'Sequences that one worker of the model runs at once.'),
    maxNumBatchedTokens: gauge('max_num_batched_tokens', 'Tokens that one worker of the model computes in one step.'),
    contextLength: gauge('context_length', 'Context length of the model in tokens.'),
    kvCacheBlockSize: gauge('kv_cache_block_size', 'Tokens in a KV block of the model.'),
    migrationLimit: gauge('migration_limit', 'Times that a request of the model may move to another worker.'),
    ready: gauge('ready', '1 while every worker role that the model needs is present.'),
    migrations: registry.counter(`${prefix}_model_migration_total`, 'Requests that moved to another worker.', [
      'model',
      'migration_type',
    ]),
    migrationDuration: registry.histogram(
      `${prefix}_model_migration_duration_seconds`,
      'Time from the loss of a worker to the first output of the next.',
      MIGRATION_SECONDS,
      ['model', 'migration_type', 'outcome'],
    ),
    migrationTooLong: registry.counter(
      `${prefix}_model_migration_max_seq_len_exceeded_total`,
      'Requests that had grown too long to be moved.',
      ['model'],
    ),
  };
}

function workerFamilies(registry: MetricRegistry) {
  const gauge = (name: string, help: string) => registry.gauge(`${FIXED_PREFIX}_worker_${name}`, help, WORKER_LABELS);
  return {
    workerDecodeBlocks: gauge('active_decode_blocks', 'KV blocks in use on the worker.'),
    workerPrefillTokens: gauge('active_prefill_tokens', 'Prompt tokens that the worker has yet to compute.'),
    workerLastTtft: gauge('last_time_to_first_token_seconds', 'Time to first token of the last request.'),
    workerLastInputTokens: gauge('last_input_sequence_tokens', 'Prompt tokens of the last request.'),
    workerLastItl: gauge('last_inter_token_latency_seconds', 'Inter-token latency of the last request.'),
  };
}

function stageFamilies(registry: MetricRegistry, prefix: string) {
  const fixed = (name: string): string => `${FIXED_PREFIX}_${name}`;
  return {
    stageRequests: registry.gauge(fixed('stage_requests'), 'Requests that are in a stage.', ['stage', 'phase']),
    stageDuration: registry.histogram(
      fixed('stage_duration_seconds'),
      'Time that a request spent in a stage.',
      stepBounds(0.0001, 5),
      ['stage'],
    ),
    tokenize: registry.histogram(fixed('tokenize_seconds'), 'Time to tokenize a prompt.', stepBounds(0.0001, 1)),
    template: registry.histogram(fixed('template_seconds'), 'Time to render a chat template.', TEMPLATE_SECONDS),
    detokenizeUs: registry.counter(fixed('detokenize_total_us'), 'Microseconds spent turning tokens into text.'),
    detokenizeTokens: registry.counter(fixed('detokenize_token_count'), 'Tokens turned into text.'),
    tokenizerLatency: registry.histogram(
      `${prefix}_tokenizer_latency_ms`,
      'Milliseconds to tokenize a prompt, or to detokenize one token on average over a request.',
      TOKENIZER_LATENCY_MS,
      ['operation'],
    ),
    cacheHits: registry.counter(fixed('tokenizer_cache_hits_total'), 'Prompts with a cached tokenized prefix.'),
    cacheMisses: registry.counter(fixed('tokenizer_cache_misses_total'), 'Prompts without one.'),
    cachedPromptTokens: registry.counter(
      fixed('tokenizer_cache_cached_tokens_total'),
      'Prompt tokens taken from the tokenizer cache.',
      ['model'],
    ),
    uncachedPromptTokens: registry.counter(
      fixed('tokenizer_cache_uncached_tokens_total'),
      'Prompt tokens that had to be tokenized.',
      ['model'],
    ),
    eventLoopDelay: registry.histogram(
      fixed('event_loop_delay_seconds'),
      'How late a timer of 10 ms fired.',
      EVENT_LOOP_DELAY_SECONDS,
    ),
    eventLoopStalls: registry.counter(fixed('event_loop_stall_total'), 'Timers of 10 ms that fired over 5 ms late.'),
    uptime: registry.gauge('dynamo_component_uptime_seconds', 'Seconds since the process started to count.'),
  };
}
