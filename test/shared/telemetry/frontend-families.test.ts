import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../shared/errors/index.ts';
import { createFrontendMetrics, type FrontendMetrics } from '../../../shared/telemetry/index.ts';
import { metricPrefix } from '../../../shared/telemetry/metrics/registry.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { type ParsedFamily, parseFamilies } from './prometheus-text.ts';

const MODEL = ['model'];
const ROUTE = ['endpoint', 'model', 'request_type'];
const WORKER = ['dp_rank', 'worker_id', 'worker_type'];
const STEPS = ['0.0001', '0.0005', '0.001', '0.005', '0.01', '0.05', '0.1', '0.5', '1', '2.5', '5'];

/** Dynamo's names: those that `--metrics-prefix` moves, without their prefix. */
const MOVING: Record<string, readonly [type: string, labels: readonly string[]]> = {
  requests_total: ['counter', [...ROUTE, 'error_type', 'status']],
  requests_started_total: ['counter', ROUTE],
  inflight_requests: ['gauge', MODEL],
  active_requests: ['gauge', MODEL],
  queued_requests: ['gauge', MODEL],
  disconnected_clients: ['gauge', []],
  failures_total: ['counter', ['class', 'reason']],
  request_duration_seconds: ['histogram', MODEL],
  input_sequence_tokens: ['histogram', MODEL],
  output_sequence_tokens: ['histogram', MODEL],
  cached_tokens: ['histogram', MODEL],
  output_tokens_total: ['counter', MODEL],
  time_to_first_token_seconds: ['histogram', MODEL],
  inter_token_latency_seconds: ['histogram', MODEL],
  embedding_latency_seconds: ['histogram', MODEL],
  tokenizer_latency_ms: ['histogram', ['operation']],
  model_total_kv_blocks: ['gauge', MODEL],
  model_max_num_seqs: ['gauge', MODEL],
  model_max_num_batched_tokens: ['gauge', MODEL],
  model_context_length: ['gauge', MODEL],
  model_kv_cache_block_size: ['gauge', MODEL],
  model_migration_limit: ['gauge', MODEL],
  model_migration_total: ['counter', ['migration_type', 'model']],
  model_migration_duration_seconds: ['histogram', ['migration_type', 'model', 'outcome']],
  model_migration_max_seq_len_exceeded_total: ['counter', MODEL],
  model_cancellation_total: ['counter', ROUTE],
  model_rejection_total: ['counter', ['endpoint', 'model']],
  model_ready: ['gauge', MODEL],
  worker_active_decode_blocks: ['gauge', WORKER],
  worker_active_prefill_tokens: ['gauge', WORKER],
  worker_last_time_to_first_token_seconds: ['gauge', WORKER],
  worker_last_input_sequence_tokens: ['gauge', WORKER],
  worker_last_inter_token_latency_seconds: ['gauge', WORKER],
  stage_requests: ['gauge', ['phase', 'stage']],
  stage_duration_seconds: ['histogram', ['stage']],
  tokenize_seconds: ['histogram', []],
  template_seconds: ['histogram', []],
  detokenize_total_us: ['counter', []],
  detokenize_token_count: ['counter', []],
  tokenizer_cache_hits_total: ['counter', []],
  tokenizer_cache_misses_total: ['counter', []],
  tokenizer_cache_cached_tokens_total: ['counter', MODEL],
  tokenizer_cache_uncached_tokens_total: ['counter', MODEL],
  event_loop_delay_seconds: ['histogram', []],
  event_loop_stall_total: ['counter', []],
};

/** Those of the request plane and of the process: no prefix moves them. */
const FIXED: Record<string, readonly [type: string, labels: readonly string[]]> = {
  dynamo_request_plane_queue_seconds: ['histogram', []],
  dynamo_request_plane_send_seconds: ['histogram', []],
  dynamo_request_plane_roundtrip_ttft_seconds: ['histogram', []],
  dynamo_request_plane_inflight_requests: ['gauge', []],
  dynamo_transport_tcp_bytes_sent_total: ['counter', []],
  dynamo_transport_tcp_bytes_received_total: ['counter', []],
  dynamo_transport_tcp_errors_total: ['counter', []],
  dynamo_transport_tcp_accept_backoff_total: ['counter', []],
  dynamo_component_uptime_seconds: ['gauge', []],
};

/** Bounds of the histograms with a fixed list. */
const BOUNDS: Record<string, readonly string[]> = {
  dynamo_frontend_tokenizer_latency_ms: ['0.5', '1', '2', '4', '8', '16', '32', '64', '128', '256', '512'],
  dynamo_frontend_model_migration_duration_seconds: '0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 20 40 60'.split(' '),
  dynamo_frontend_stage_duration_seconds: STEPS,
  dynamo_frontend_tokenize_seconds: STEPS.slice(0, 9),
  dynamo_frontend_template_seconds: ['0.00001', '0.00005', '0.0001', '0.0005', '0.001', '0.005', '0.01', '0.05'],
  dynamo_frontend_event_loop_delay_seconds: ['0', '0.001', '0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1'],
  dynamo_request_plane_queue_seconds: STEPS.slice(0, 9),
  dynamo_request_plane_send_seconds: STEPS.slice(0, 9),
  dynamo_request_plane_roundtrip_ttft_seconds: STEPS.slice(2),
};

/** One of everything, at fixed times. */
async function exercise(metrics: FrontendMetrics, clock: VirtualClock): Promise<void> {
  const meter = metrics.startRequest({ model: 'm', endpoint: 'chat_completions', requestType: 'stream' });
  meter.promptTokens(120);
  await clock.advance(25);
  meter.cachedTokens(64);
  meter.outputTokens(1);
  await clock.advance(10);
  meter.outputTokens(1);
  meter.end({ status: 'success' });
  metrics.startRequest({ model: 'm', endpoint: 'completions', requestType: 'unary' }).end({
    status: 'error',
    errorType: 'validation',
  });
  metrics.failed(new ServeError('invalid_value', 'wrong'));
  metrics.rejected('m', 'chat_completions');
  metrics.ignoredKeys('responses', ['other']);
  metrics.leftOut('responses', ['tool']);
  metrics.embedded('m', 3);
  metrics.migrated('m', 'new_request');
  metrics.migrationTook('m', 'new_request', 'success', 30);
  metrics.migrationTooLong('m');
  metrics.tokenizerCache('m', 1, 2);
  metrics.setModel({
    model: 'm',
    totalKvBlocks: 1000,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 2048,
    contextLength: 4096,
    kvCacheBlockSize: 16,
    migrationLimit: 3,
  });
  metrics.readModelsFrom(() => [{ model: 'm', isReady: true }]);
  const figures = { activeDecodeBlocks: 1, activePrefillTokens: 2, lastTtftMs: 3, lastInputTokens: 4, lastItlMs: 5 };
  metrics.setWorker({ workerId: '1f', dpRank: 0, workerType: 'decode' }, figures);
}

async function exercised(prefix?: string): Promise<string> {
  const clock = new VirtualClock();
  const metrics = createFrontendMetrics({ clock, ...(prefix === undefined ? {} : { prefix }) });
  await exercise(metrics, clock);
  return await metrics.render();
}

function shapes(families: ReadonlyMap<string, ParsedFamily>): Record<string, readonly [string, readonly string[]]> {
  return Object.fromEntries([...families].map(([name, { type, labels }]) => [name, [type, labels]]));
}

function expectedShapes(prefix: string): Record<string, readonly [string, readonly string[]]> {
  const moved = Object.entries(MOVING).map(([name, [type, labels]]) => [
    `${prefix}_${name}`,
    [type, [...labels].sort()],
  ]);
  const own = {
    stator_frontend_ignored_keys_total: ['counter', ['endpoint', 'key']],
    stator_frontend_left_out_total: ['counter', ['endpoint', 'kind']],
    stator_frontend_limits_reached_total: ['counter', ['limit']],
    stator_frontend_handler_failures_total: ['counter', []],
    stator_frontend_websockets: ['gauge', []],
    stator_metric_series_overflow_total: ['counter', []],
  } as const;
  return { ...Object.fromEntries(moved), ...FIXED, ...own };
}

describe('the frontend’s /metrics', () => {
  it('has exactly the published names, types and labels', async () => {
    expect(shapes(parseFamilies(await exercised()))).toEqual(expectedShapes('dynamo_frontend'));
  });

  it('has every family, and those without labels at zero, before the first request', async () => {
    const families = parseFamilies(await createFrontendMetrics({ clock: new VirtualClock() }).render());
    expect([...families.keys()].sort()).toEqual(Object.keys(expectedShapes('dynamo_frontend')).sort());
  });

  it('moves every name of its own with the prefix', async () => {
    expect(shapes(parseFamilies(await exercised('my-pre.fix')))).toEqual(expectedShapes('my_pre_fix'));
  });

  it('refuses a prefix that gives two metrics one name, and names both', () => {
    expect(() => createFrontendMetrics({ prefix: 'dynamo_request_plane' })).toThrow(
      '--metrics-prefix dynamo_request_plane gives two metrics the name dynamo_request_plane_inflight_requests',
    );
  });

  it.each(Object.entries(BOUNDS))('has the published bounds on %s', async (name, bounds) => {
    expect(parseFamilies(await exercised()).get(name)?.bounds).toEqual(bounds);
  });

  it('reads, byte for byte, as recorded', async () => {
    await expect(await exercised()).toMatchFileSnapshot('../../fixtures/telemetry/frontend.prom');
  });

  it('is Prometheus text', () => {
    expect(createFrontendMetrics().contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
  });
});

describe('the metric prefix', () => {
  it.each([
    ['my-pre.fix', 'my_pre_fix'],
    ['abc', 'abc'],
    ['9lives', '_9lives'],
    ['a:b', 'a:b'],
    ['', 'dynamo_frontend'],
    ['___', 'dynamo_frontend'],
    ['--', 'dynamo_frontend'],
    [undefined, 'dynamo_frontend'],
  ])('makes %j to %s', (text, prefix) => {
    expect(metricPrefix(text)).toBe(prefix);
  });
});
