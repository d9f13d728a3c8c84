import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../shared/errors/index.ts';
import { createFrontendMetrics, type RequestMeter } from '../../../shared/telemetry/index.ts';
import { BUCKETS } from '../../../shared/telemetry/metrics/buckets.ts';
import type { FrontendMetricsOptions, RequestRoute } from '../../../shared/telemetry/metrics/frontend-metrics.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { parseSamples } from './prometheus-text.ts';

const CHAT: RequestRoute = { model: 'm', endpoint: 'chat_completions', requestType: 'stream' };
const CHAT_LABELS = 'model="m",endpoint="chat_completions",request_type="stream"';

function frontend(options: FrontendMetricsOptions = {}) {
  const clock = new VirtualClock();
  const metrics = createFrontendMetrics({ clock, ...options });
  const value = async (name: string): Promise<number | undefined> =>
    parseSamples(await metrics.render()).get(`dynamo_frontend_${name}`);
  return { clock, metrics, value };
}

describe('a request', () => {
  it('is started, active, in flight and queued from the handler’s entry on', async () => {
    const { metrics, value } = frontend();
    metrics.startRequest(CHAT);
    expect(await value(`requests_started_total{${CHAT_LABELS}}`)).toBe(1);
    for (const gauge of ['active', 'inflight', 'queued']) expect(await value(`${gauge}_requests{model="m"}`)).toBe(1);
  });

  it('is no longer queued at its first token', async () => {
    const { metrics, value } = frontend();
    const meter = metrics.startRequest(CHAT);
    meter.promptTokens(10);
    expect(await value('queued_requests{model="m"}')).toBe(1);
    meter.outputTokens(1);
    expect(await value('queued_requests{model="m"}')).toBe(0);
    expect(await value('active_requests{model="m"}')).toBe(1);
  });

  it('measures the first token from the handler’s entry, the whole first chunk as one', async () => {
    const { clock, metrics, value } = frontend();
    const meter = metrics.startRequest(CHAT);
    await clock.advance(46);
    meter.outputTokens(0);
    expect(meter.ttftMs).toBeUndefined();
    await clock.advance(4);
    meter.outputTokens(3);
    expect(meter.ttftMs).toBe(50);
    expect(await value('time_to_first_token_seconds_count{model="m"}')).toBe(1);
    expect(await value('time_to_first_token_seconds_bucket{le="0.047",model="m"}')).toBe(0);
    expect(await value('time_to_first_token_seconds_bucket{le="0.1",model="m"}')).toBe(1);
    expect(await value('inter_token_latency_seconds_count{model="m"}')).toBe(0);
  });

  it('counts from the handler’s entry also when the model became known later', async () => {
    const { clock, metrics, value } = frontend();
    const startedMs = clock.nowMs();
    await clock.advance(20);
    const meter = metrics.startRequest({ ...CHAT, startedMs });
    await clock.advance(30);
    meter.outputTokens(1);
    meter.end({ status: 'success' });
    expect(meter.ttftMs).toBe(50);
    expect(await value('request_duration_seconds_sum{model="m"}')).toBe(0.05);
  });

  it('counts inter-token latency once a token: the gap shared by the chunk', async () => {
    const { clock, metrics, value } = frontend();
    const meter = metrics.startRequest(CHAT);
    meter.outputTokens(1);
    await clock.advance(40);
    meter.outputTokens(4); // 10 ms each
    await clock.advance(30);
    meter.outputTokens(1);
    expect(await value('inter_token_latency_seconds_count{model="m"}')).toBe(5);
    expect(await value('inter_token_latency_seconds_sum{model="m"}')).toBeCloseTo(0.07, 9);
    expect(await value('inter_token_latency_seconds_bucket{le="0.011",model="m"}')).toBe(4);
    expect(await value('inter_token_latency_seconds_bucket{le="0.035",model="m"}')).toBe(5);
  });

  it('shows its tokens while it runs, and its length when it has ended', async () => {
    const { metrics, value } = frontend();
    const meter = metrics.startRequest(CHAT);
    for (let step = 0; step < 120; step++) meter.outputTokens(1);
    expect(await value('output_tokens_total{model="m"}')).toBe(120);
    expect(await value('output_sequence_tokens_count{model="m"}')).toBe(0);
    meter.end({ status: 'success' });
    expect(await value('output_sequence_tokens_sum{model="m"}')).toBe(120);
    expect(await value('output_sequence_tokens_bucket{le="100",model="m"}')).toBe(0);
    expect(await value('output_sequence_tokens_bucket{le="210",model="m"}')).toBe(1);
  });

  it.each([
    [7, 7],
    [undefined, 3],
  ])('in pieces whose worker says that they hold %s tokens has %i of them', async (told, tokens) => {
    const { clock, metrics, value } = frontend();
    const meter = metrics.startRequest(CHAT);
    for (let at = 0; at < 3; at++) {
      await clock.advance(50);
      meter.piece();
    }
    expect(meter.ttftMs).toBe(50);
    expect(await value('queued_requests{model="m"}')).toBe(0);
    expect(await value('inter_token_latency_seconds_count{model="m"}')).toBe(2);
    if (told !== undefined) meter.piecesHold(told);
    meter.end({ status: 'success' });
    expect(await value('output_tokens_total{model="m"}')).toBe(tokens);
    expect(await value('output_sequence_tokens_sum{model="m"}')).toBe(tokens);
    expect(await value('queued_requests{model="m"}')).toBe(0);
  });

  it('that ends well counts as success, with its duration', async () => {
    const { clock, metrics, value } = frontend();
    const meter = metrics.startRequest(CHAT);
    await clock.advance(3000);
    meter.outputTokens(1);
    meter.end({ status: 'success' });
    expect(await value(`requests_total{${CHAT_LABELS},status="success",error_type=""}`)).toBe(1);
    expect(await value('request_duration_seconds_sum{model="m"}')).toBe(3);
    expect(await value('request_duration_seconds_bucket{le="4",model="m"}')).toBe(1);
    for (const gauge of ['active', 'inflight', 'queued']) expect(await value(`${gauge}_requests{model="m"}`)).toBe(0);
  });

  it.each(['validation', 'not_found', 'overload', 'unavailable', 'cancelled', 'response_timeout', 'internal'])(
    'that fails before its first token counts as %s and has no output length',
    async (errorType) => {
      const { metrics, value } = frontend();
      metrics.startRequest(CHAT).end({ status: 'error', errorType });
      expect(await value(`requests_total{${CHAT_LABELS},status="error",error_type="${errorType}"}`)).toBe(1);
      expect(await value(`requests_total{${CHAT_LABELS},status="success",error_type=""}`)).toBe(0);
      expect(await value('output_sequence_tokens_count{model="m"}')).toBe(0);
      expect(await value('queued_requests{model="m"}')).toBe(0);
    },
  );

  it('counts prompt and cached tokens once, also when it moves to another worker', async () => {
    const { metrics, value } = frontend();
    const meter = metrics.startRequest(CHAT);
    for (const round of [1, 2]) {
      meter.promptTokens(300 * round);
      meter.cachedTokens(96 * round);
    }
    expect(await value('input_sequence_tokens_sum{model="m"}')).toBe(300);
    expect(await value('input_sequence_tokens_count{model="m"}')).toBe(1);
    expect(await value('cached_tokens_sum{model="m"}')).toBe(96);
  });

  it('changes nothing after its end', async () => {
    const { clock, metrics } = frontend();
    const meter = metrics.startRequest(CHAT);
    meter.outputTokens(1);
    meter.end({ status: 'success' });
    const before = await metrics.render();
    meter.promptTokens(1);
    meter.cachedTokens(1);
    meter.outputTokens(1);
    meter.end({ status: 'error', errorType: 'internal' });
    await clock.advance(0);
    expect(await metrics.render()).toBe(before);
  });

  it('leaves every gauge at zero once all have ended, in any order of events', async () => {
    const call = fc.constantFrom<(meter: RequestMeter) => void>(
      (meter) => meter.promptTokens(5),
      (meter) => meter.outputTokens(2),
      (meter) => meter.end({ status: 'success' }),
      (meter) => meter.end({ status: 'error', errorType: 'cancelled' }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(4), call), { maxLength: 40 }), async (calls) => {
        const { metrics, value } = frontend();
        const meters = Array.from({ length: 5 }, () => metrics.startRequest(CHAT));
        for (const [at, act] of calls) act(meters[at]!);
        for (const meter of meters) meter.end({ status: 'success' });
        for (const gauge of ['active', 'inflight', 'queued'])
          expect(await value(`${gauge}_requests{model="m"}`)).toBe(0);
        const ended = await value('request_duration_seconds_count{model="m"}');
        expect(ended).toBe(5);
      }),
      { numRuns: 50 },
    );
  });
});

describe('what happens around requests', () => {
  it('counts rejections, cancellations and clients that left', async () => {
    const { metrics, value } = frontend();
    metrics.rejected('m', 'chat_completions');
    metrics.cancelled('m', 'chat_completions', 'stream');
    metrics.disconnected();
    expect(await value('model_rejection_total{model="m",endpoint="chat_completions"}')).toBe(1);
    expect(await value(`model_cancellation_total{${CHAT_LABELS}}`)).toBe(1);
    expect(await value('disconnected_clients')).toBe(1);
  });

  it('counts a failure under the class and reason of its code', async () => {
    const { metrics, value } = frontend();
    metrics.failed(new ServeError('model_not_found', 'no such model'));
    metrics.failed(new ServeError('server_overloaded', 'full'));
    metrics.failed(new ServeError('internal_error', 'broken'));
    expect(await value('failures_total{class="NotFound",reason="request.not_found"}')).toBe(1);
    expect(await value('failures_total{class="CapacityExhausted",reason="capacity.exhausted"}')).toBe(1);
    expect(await value('failures_total{class="Internal",reason="backend.unknown"}')).toBe(1);
  });

  it('counts requests in a stage and the time they spend there', async () => {
    const { metrics, value } = frontend();
    metrics.stageEntered('preprocess');
    metrics.stageEntered('dispatch', 'aggregated');
    metrics.stageLeft('preprocess');
    metrics.stage('preprocess', 0.4);
    metrics.template(0.04);
    expect(await value('stage_requests{stage="preprocess",phase=""}')).toBe(0);
    expect(await value('stage_requests{stage="dispatch",phase="aggregated"}')).toBe(1);
    expect(await value('stage_duration_seconds_bucket{le="0.0001",stage="preprocess"}')).toBe(0);
    expect(await value('stage_duration_seconds_bucket{le="0.0005",stage="preprocess"}')).toBe(1);
    expect(await value('template_seconds_bucket{le="0.00005"}')).toBe(1);
  });

  it('counts tokenizing and detokenizing in seconds, milliseconds and microseconds', async () => {
    const { metrics, value } = frontend();
    metrics.tokenize(3);
    metrics.detokenize(4, 8);
    metrics.detokenize(0, 0);
    expect(await value('tokenize_seconds_sum')).toBe(0.003);
    expect(await value('tokenizer_latency_ms_bucket{le="4",operation="tokenize"}')).toBe(1);
    expect(await value('tokenizer_latency_ms_bucket{le="0.5",operation="detokenize"}')).toBe(1);
    expect(await value('detokenize_total_us')).toBe(4000);
    expect(await value('detokenize_token_count')).toBe(8);
  });

  it('counts what the tokenizer’s cache saves', async () => {
    const { metrics, value } = frontend();
    metrics.tokenizerCache('m', 90, 10);
    metrics.tokenizerCache('m', 0, 50);
    expect(await value('tokenizer_cache_hits_total')).toBe(1);
    expect(await value('tokenizer_cache_misses_total')).toBe(1);
    expect(await value('tokenizer_cache_cached_tokens_total{model="m"}')).toBe(90);
    expect(await value('tokenizer_cache_uncached_tokens_total{model="m"}')).toBe(60);
  });

  it('counts migrations', async () => {
    const { metrics, value } = frontend();
    metrics.migrated('m', 'ongoing_request');
    metrics.migrationTook('m', 'ongoing_request', 'success', 200);
    metrics.migrationTooLong('m');
    expect(await value('model_migration_total{model="m",migration_type="ongoing_request"}')).toBe(1);
    const labels = 'model="m",migration_type="ongoing_request",outcome="success"';
    expect(await value(`model_migration_duration_seconds_bucket{le="0.1",${labels}}`)).toBe(0);
    expect(await value(`model_migration_duration_seconds_bucket{le="0.25",${labels}}`)).toBe(1);
    expect(await value('model_migration_max_seq_len_exceeded_total{model="m"}')).toBe(1);
  });
});

describe('models and workers', () => {
  it('shows what a card says, and nothing where it is silent', async () => {
    const { metrics, value } = frontend();
    metrics.setModel({ model: 'm', contextLength: 4096, kvCacheBlockSize: 16, maxNumSeqs: undefined });
    expect(await value('model_context_length{model="m"}')).toBe(4096);
    expect(await value('model_kv_cache_block_size{model="m"}')).toBe(16);
    expect(await value('model_max_num_seqs{model="m"}')).toBeUndefined();
  });

  it('asks for readiness at every scrape', async () => {
    const { metrics, value } = frontend();
    let isReady = false;
    metrics.readModelsFrom(() => [{ model: 'm', isReady }]);
    expect(await value('model_ready{model="m"}')).toBe(0);
    isReady = true;
    expect(await value('model_ready{model="m"}')).toBe(1);
  });

  it('shows figures of workers until they go', async () => {
    const { metrics, value } = frontend();
    metrics.setWorker({ workerId: '1f', workerType: 'decode' }, { activeDecodeBlocks: 7, lastItlMs: 20 });
    metrics.setWorker({ workerId: '1f', dpRank: 1, workerType: 'prefill' }, { lastTtftMs: 500, lastInputTokens: 9 });
    expect(await value('worker_active_decode_blocks{worker_id="1f",dp_rank="none",worker_type="decode"}')).toBe(7);
    const decode = 'worker_id="1f",dp_rank="none",worker_type="decode"';
    const prefill = 'worker_id="1f",dp_rank="1",worker_type="prefill"';
    expect(await value(`worker_last_inter_token_latency_seconds{${decode}}`)).toBe(0.02);
    expect(await value(`worker_last_time_to_first_token_seconds{${prefill}}`)).toBe(0.5);
    metrics.removeWorker('1f');
    expect(await value(`worker_active_decode_blocks{${decode}}`)).toBeUndefined();
    expect(await value(`worker_last_time_to_first_token_seconds{${prefill}}`)).toBeUndefined();
  });

  it('shows the last request of each worker: its first token where the prompt was computed, its pace where it went on', async () => {
    const { clock, metrics, value } = frontend();
    const meter = metrics.startRequest({ ...CHAT, model: 'm' });
    meter.promptTokens(640);
    const prefill = { workerId: 'a', workerType: 'prefill' } as const;
    meter.servedBy(prefill, { workerId: 'b', dpRank: 1, workerType: 'decode' });
    await clock.advance(300);
    meter.outputTokens(1);
    await clock.advance(40);
    meter.outputTokens(2); // 20 ms each
    expect(
      await value('worker_last_time_to_first_token_seconds{worker_id="a",dp_rank="none",worker_type="prefill"}'),
    ).toBe(0.3);
    expect(await value('worker_last_input_sequence_tokens{worker_id="a",dp_rank="none",worker_type="prefill"}')).toBe(
      640,
    );
    const latencyOf = (labels: string) => value(`worker_last_inter_token_latency_seconds{${labels}}`);
    const first = 'worker_id="b",dp_rank="1",worker_type="decode"';
    expect(await latencyOf(first)).toBeUndefined(); // shown when the worker is done with it
    meter.servedBy(prefill, { workerId: 'c', workerType: 'decode' });
    expect(await latencyOf(first)).toBe(0.02);
    await clock.advance(7);
    meter.outputTokens(1);
    meter.end({ status: 'success' });
    expect(await latencyOf('worker_id="c",dp_rank="none",worker_type="decode"')).toBeCloseTo(0.007, 9);
    expect(await latencyOf(first)).toBe(0.02);
  });

  it('forgets at a scrape the workers that are not there any more, also those that a late request named', async () => {
    const { metrics, value } = frontend();
    const present = new Set(['a', 'b']);
    metrics.readWorkersFrom(() => present);
    for (const workerId of present) metrics.setWorker({ workerId, workerType: 'decode' }, { lastItlMs: 20 });
    const shown = (id: string) =>
      value(`worker_last_inter_token_latency_seconds{worker_id="${id}",dp_rank="none",worker_type="decode"}`);
    expect([await shown('a'), await shown('b')]).toEqual([0.02, 0.02]);
    present.delete('b');
    expect([await shown('a'), await shown('b')]).toEqual([0.02, undefined]);
    metrics.setWorker({ workerId: 'b', workerType: 'decode' }, { lastItlMs: 30 });
    expect(await shown('b')).toBeUndefined();
  });

  it('gives names beyond its bound one shared series, and tells so', async () => {
    const { metrics, value } = frontend({ modelsMax: 2 });
    for (const model of ['a', 'b', 'c', 'd', 'a']) metrics.startRequest({ ...CHAT, model });
    expect(await value('active_requests{model="a"}')).toBe(2);
    expect(await value('active_requests{model="__other__"}')).toBe(2);
    expect(await value('active_requests{model="c"}')).toBeUndefined();
    const overflow = parseSamples(await metrics.render()).get(
      'stator_metric_series_overflow_total{metric="dynamo_frontend_requests_total"}',
    );
    expect(overflow).toBe(2);
  });
});

describe('the process', () => {
  it('shows for how long it has been up', async () => {
    const { clock, metrics } = frontend();
    await clock.advance(2500);
    expect(await metrics.render()).toContain('\ndynamo_component_uptime_seconds 2.5\n');
  });

  it('uses the buckets of the configuration', async () => {
    const { metrics, value } = frontend({ buckets: { ...BUCKETS, ttft: { min: 1, max: 4, count: 3 } } });
    metrics.startRequest(CHAT);
    expect(await value('time_to_first_token_seconds_bucket{le="2",model="m"}')).toBe(0);
    expect(await value('time_to_first_token_seconds_bucket{le="480",model="m"}')).toBeUndefined();
    expect(await value('inter_token_latency_seconds_bucket{le="80",model="m"}')).toBe(0);
  });
});
