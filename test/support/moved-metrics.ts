/** Families of metrics that were on pages, and those of which a sample was not 0. */
export class MovedMetrics {
  readonly #families = new Set<string>();
  readonly #moved = new Set<string>();

  take(page: string): void {
    for (const [, name = ''] of page.matchAll(/^# TYPE (\S+) /gm)) this.#families.add(name);
    for (const line of page.split('\n')) {
      if (line === '' || line.startsWith('#') || Number(line.slice(line.lastIndexOf(' ') + 1)) === 0) continue;
      const name = /^[\w:]+/.exec(line)?.[0] ?? '';
      this.#moved.add(this.#families.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, ''));
    }
  }

  get count(): number {
    return this.#families.size;
  }

  /** Families that were 0 on every page, in order. */
  get unmoved(): readonly string[] {
    return [...this.#families].filter((name) => !this.#moved.has(name)).sort();
  }

  hasMoved(name: string): boolean {
    return this.#moved.has(name);
  }
}

const KEPT_AT_ZERO = 'Dynamo has it and dashboards read it, but nothing here increments it';

/** Families that no suite moves, with the reason why they exist. */
export const NEVER_MOVED: Readonly<Record<string, string>> = {
  dynamo_component_router_shared_cache_hit_rate: KEPT_AT_ZERO,
  dynamo_component_router_shared_cache_beyond_blocks: KEPT_AT_ZERO,
  dynamo_router_overhead_shared_cache_query_ms: KEPT_AT_ZERO,
  dynamo_router_shared_cache_errors_total: KEPT_AT_ZERO,
  dynamo_transport_tcp_accept_backoff_total: KEPT_AT_ZERO,
};

/**
 * Families that need a real engine, a damaged peer, another law or another machine. Each names the suites that move and
 * check it.
 */
export const MOVED_BY: Readonly<Record<string, readonly string[]>> = {
  'test/e2e/engine-events.test.ts': ['stator_worker_kv_events_missing'],
  'test/e2e/large-bodies.test.ts': ['stator_frontend_body_bytes'],
  'test/e2e/planner-joins.test.ts': ['stator_planner_unheard_looks_total'],
  'test/e2e/routing-hints.test.ts': ['stator_frontend_speculative_prefills_total'],
  'test/e2e/shared-state.test.ts': ['stator_router_unattributed_requests'],
  'test/e2e/two-machines.test.ts': ['stator_artifact_reads_total', 'stator_artifact_read_bytes_total'],
  'test/functions/sdk/frontend.test.ts': ['stator_frontend_drain_cut_total'],
  'test/shared/frontends/handler-failures.test.ts': ['stator_frontend_handler_failures_total'],
  'test/shared/frontends/node/websocket.test.ts': ['stator_frontend_websockets'],
  'test/shared/planner/live/planner-metrics.test.ts': [
    'dynamo_planner_engine_prefill_capacity_requests_per_second',
    'dynamo_planner_engine_queued_decode_kv_tokens',
    'dynamo_planner_engine_queued_prefill_tokens',
    'dynamo_planner_estimated_itl_ms',
    'dynamo_planner_estimated_ttft_ms',
    'dynamo_planner_load_scaling_decision',
    'dynamo_planner_num_prefill_replicas',
    'dynamo_planner_predicted_input_sequence_tokens',
    'dynamo_planner_predicted_num_prefill_replicas',
    'dynamo_planner_predicted_output_sequence_tokens',
    'dynamo_planner_predicted_requests_per_second',
    'dynamo_planner_throughput_scaling_decision',
    'dynamo_planner_tick_timeout_total',
    'stator_planner_capacity_seconds',
    'stator_planner_conflicts_total',
    'stator_planner_decision_applied_seconds',
    'stator_planner_failed_looks_total',
    'stator_planner_held_requests',
    'stator_planner_late_events_total',
    'stator_planner_refused_events_total',
    'stator_planner_reapplied_decisions_total',
    'stator_planner_stalled',
    'stator_planner_unapplied_decisions_total',
  ],
  'test/shared/standalone/indexer.test.ts': [
    'dynamo_kvrouter_kv_cache_event_warnings',
    'dynamo_kvrouter_kv_cache_events_applied',
    'stator_router_index_evicted_blocks_total',
  ],
  'test/shared/worker/quotes.test.ts': ['stator_worker_uncounted_places_total'],
  'test/shared/worker/worker.test.ts': ['stator_worker_drained_requests_total'],
  'test/shared/telemetry/process-metrics.test.ts': ['dynamo_component_kv_publisher_engines_dropped_events_total'],
  'test/shared/telemetry/registry.test.ts': ['stator_metric_series_overflow_total'],
  'test/shared/telemetry/router-metrics.test.ts': [
    'dynamo_component_kv_cache_event_warnings',
    'stator_router_kv_events_dropped_total',
    'stator_router_kv_events_skipped_total',
    'stator_router_kv_events_stale_total',
    'stator_router_peer_bookings_unremembered_total',
  ],
};
