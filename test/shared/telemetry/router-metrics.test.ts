import { describe, expect, it } from 'vitest';
import { createRouterMetrics, MetricRegistry } from '../../../shared/telemetry/index.ts';
import { parseFamilies, parseSamples } from './prometheus-text.ts';

const OWN = ['dynamo_component', 'dynamo_namespace', 'router_id', 'worker_id'];
const BY_MODEL = ['dynamo_component', 'dynamo_namespace', 'model', 'phase', 'router_id', 'worker_id'];
const BY_TYPE = [...OWN, 'worker_type'];
const QUEUE = ['model', 'policy_class', 'worker_type'];
const INDEX = ['dynamo_component', 'dynamo_namespace', 'event_type', 'status', 'worker_id'];

/** Dynamo's names, the queue's too. */
const EXPECTED: Record<string, readonly [type: string, labels: readonly string[]]> = {
  dynamo_component_router_requests_started_total: ['counter', OWN],
  dynamo_component_router_requests_total: ['counter', OWN],
  dynamo_component_router_time_to_first_token_seconds: ['histogram', OWN],
  dynamo_component_router_inter_token_latency_seconds: ['histogram', OWN],
  dynamo_component_router_input_sequence_tokens: ['histogram', BY_MODEL],
  dynamo_component_router_output_sequence_tokens: ['histogram', OWN],
  dynamo_component_router_kv_hit_rate: ['histogram', OWN],
  dynamo_component_router_shared_cache_hit_rate: ['histogram', OWN],
  dynamo_component_router_shared_cache_beyond_blocks: ['histogram', OWN],
  dynamo_component_router_kv_transfer_estimated_latency_seconds: ['histogram', OWN],
  dynamo_component_router_non_max_overlap_selections_total: ['counter', BY_TYPE],
  dynamo_component_router_overlap_blocks_lost: ['histogram', BY_TYPE],
  dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total: ['counter', BY_MODEL],
  dynamo_component_router_kv_selected_cached_prefix_tokens_total: ['counter', BY_MODEL],
  dynamo_component_router_kv_worker_reused_tokens_total: ['counter', BY_MODEL],
  dynamo_component_router_worker_registered: [
    'gauge',
    ['dp_rank', 'dynamo_component', 'dynamo_namespace', 'router_worker_id', 'worker_id', 'worker_type'],
  ],
  dynamo_router_overhead_block_hashing_ms: ['histogram', ['router_id']],
  dynamo_router_overhead_seq_hashing_ms: ['histogram', ['router_id']],
  dynamo_router_overhead_indexer_find_matches_ms: ['histogram', ['router_id']],
  dynamo_router_overhead_scheduling_ms: ['histogram', ['router_id']],
  dynamo_router_overhead_total_ms: ['histogram', ['router_id']],
  dynamo_router_overhead_shared_cache_query_ms: ['histogram', ['router_id']],
  dynamo_router_shared_cache_errors_total: ['counter', ['router_id']],
  dynamo_frontend_router_queue_pending_requests: ['gauge', QUEUE],
  dynamo_frontend_router_queue_pending_isl_tokens: ['gauge', QUEUE],
  dynamo_frontend_router_queue_pending_cached_tokens: ['gauge', QUEUE],
  dynamo_frontend_router_queue_backpressure_total: ['counter', ['model', 'policy_class', 'reason', 'worker_type']],
  dynamo_frontend_router_admission_received_total: ['counter', QUEUE],
  dynamo_frontend_router_admission_rejected_total: ['counter', ['model', 'policy_class', 'reason', 'worker_type']],
  dynamo_component_kv_cache_events_applied: ['counter', INDEX],
  dynamo_component_kv_cache_event_warnings: [
    'counter',
    ['dynamo_component', 'dynamo_namespace', 'warning_kind', 'worker_id'],
  ],
};

function open(isKvMode = true) {
  const registry = new MetricRegistry();
  const metrics = createRouterMetrics({ registry, namespace: 'ns', routerId: 'ab', isKvMode });
  const read = async (name: string, ...labels: readonly string[]): Promise<number> => {
    let sum = 0;
    for (const [sample, value] of parseSamples(await registry.render())) {
      if (sample.replace(/\{.*/, '') === name && labels.every((label) => sample.includes(label))) sum += value;
    }
    return sum;
  };
  return { metrics, registry, read };
}

const DECISION = {
  promptTokens: 1000,
  cachedTokens: 250,
  bestCachedTokens: 500,
  blocksLost: 0,
  sharedBeyondBlocks: 0,
  matchMs: 0.05,
  schedulingMs: 0.02,
};

describe('metrics of the router', () => {
  it('have the published names, types and labels', async () => {
    const { metrics, registry } = open();
    const pool = metrics.pool('m', 'decode', 'aggregated');
    pool.received('default');
    pool.backpressure('default', 'request_limit');
    pool.pending('default', 1, 2, 3);
    metrics.registered('c', 0, 'decode');
    const families = parseFamilies(await registry.render());
    for (const [name, [type, labels]] of Object.entries(EXPECTED)) {
      expect(families.get(name), name).toMatchObject({ type, labels: [...labels].sort() });
    }
  });

  it('have the published bounds', async () => {
    const { metrics, registry } = open();
    metrics.pool('m', 'decode', 'aggregated');
    const families = parseFamilies(await registry.render());
    const boundsOf = (name: string): string => families.get(name)?.bounds.join(' ') ?? '';
    expect(boundsOf('dynamo_component_router_inter_token_latency_seconds')).toBe(
      '0 0.0019 0.0035 0.0067 0.013 0.024 0.045 0.084 0.16 0.3 0.56 1.1 2',
    );
    expect(boundsOf('dynamo_component_router_kv_transfer_estimated_latency_seconds')).toBe(
      '0 0.0019 0.0037 0.0072 0.014 0.027 0.052 0.1 0.19 0.37 0.72 1.4 2.7 5.2 10',
    );
    expect(boundsOf('dynamo_component_router_overlap_blocks_lost')).toMatch(/^0\.25 0\.5 1 2 4 .* 4096 8192$/);
    expect(boundsOf('dynamo_component_router_shared_cache_beyond_blocks')).toMatch(/^1 2 4 .* 2048$/);
    const rates = boundsOf('dynamo_component_router_kv_hit_rate').split(' ');
    expect([rates.length, rates[3], rates[20]]).toEqual([21, '0.15000000000000002', '1']);
    expect(boundsOf('dynamo_router_overhead_block_hashing_ms').split(' ')).toHaveLength(15);
    expect(boundsOf('dynamo_router_overhead_total_ms').split(' ')).toHaveLength(17);
  });

  it('of requests are there at zero in every mode, those of the index in mode kv alone', async () => {
    const other = parseSamples(await open(false).registry.render());
    const count = (name: string): number => [...other.keys()].filter((sample) => sample.startsWith(`${name}{`)).length;
    expect(count('dynamo_component_router_requests_total')).toBe(1);
    expect(count('dynamo_component_router_kv_hit_rate_count')).toBe(1);
    expect(count('dynamo_component_kv_cache_events_applied')).toBe(0);
    const kv = parseSamples(await open().registry.render());
    const applied = [...kv].filter(([sample]) => sample.startsWith('dynamo_component_kv_cache_events_applied{'));
    expect(applied).toHaveLength(18);
    expect(applied.every(([, value]) => value === 0)).toBe(true);
  });

  it('count a decision by what it was made on', async () => {
    const { metrics, read } = open();
    const pool = metrics.pool('m', 'decode', 'aggregated');
    metrics.hashed(0.3);
    pool.decided(DECISION);
    pool.decided({ ...DECISION, blocksLost: 16 });
    expect(await read('dynamo_component_router_requests_started_total')).toBe(2);
    expect(await read('dynamo_component_router_kv_hit_rate_sum')).toBe(0.5);
    expect(await read('dynamo_component_router_kv_selected_cached_prefix_tokens_total')).toBe(500);
    expect(await read('dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total')).toBe(1000);
    expect(await read('dynamo_component_router_non_max_overlap_selections_total')).toBe(1);
    expect(await read('dynamo_component_router_overlap_blocks_lost_sum')).toBe(16);
    expect(await read('dynamo_router_overhead_total_ms_sum')).toBeCloseTo(0.37 + 0.07);
  });

  it('count what became of KV events, and bookings of others that are not remembered', async () => {
    const { metrics, read } = open();
    metrics.applied('stored', 'ok');
    metrics.duplicates(7);
    metrics.skipped('malformed');
    metrics.stale();
    metrics.dropped();
    metrics.peerBookingUnremembered();
    expect(await read('dynamo_component_kv_cache_events_applied', 'stored', '"ok"')).toBe(1);
    expect(await read('dynamo_component_kv_cache_event_warnings')).toBe(7);
    expect(await read('stator_router_kv_events_skipped_total', 'malformed')).toBe(1);
    expect(await read('stator_router_kv_events_stale_total')).toBe(1);
    expect(await read('stator_router_kv_events_dropped_total')).toBe(1);
    expect(await read('stator_router_peer_bookings_unremembered_total')).toBe(1);
  });

  it('lose the series of a worker that leaves', async () => {
    const { metrics, read } = open();
    metrics.registered('c', 0, 'decode');
    metrics.registered('c', 1, 'decode');
    metrics.registered('d', 0, 'prefill');
    metrics.unregistered('c');
    expect(await read('dynamo_component_router_worker_registered')).toBe(1);
  });
});
