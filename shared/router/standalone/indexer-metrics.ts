import { MetricRegistry } from '../../telemetry/index.ts';
import type { OnApplied } from '../feed/index.ts';

/** Seconds; lookups take microseconds, a long dump seconds. */
const DURATION_BOUNDS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

/** What the metrics show of the indexer's state, asked at every scrape. */
export interface IndexerState {
  readonly models: number;
  readonly workers: number;
  /** Listeners by their status. */
  readonly listeners: ReadonlyMap<string, number>;
  readonly duplicateBlocks: number;
  readonly indexBlocks: number;
  readonly indexBytes: number;
}

export interface IndexerMetrics {
  readonly registry: MetricRegistry;
  answered(path: string, method: string, status: number, elapsedMs: number): void;
  readonly applied: OnApplied;
  evicted(blocks: number): void;
  /** Called once by who knows the state. */
  show(read: () => IndexerState): void;
}

const LISTENER_STATUSES = ['pending', 'active', 'paused', 'failed'];

/** The metrics of the standalone indexer. */
export function createIndexerMetrics(): IndexerMetrics {
  const registry = new MetricRegistry();
  const name = (rest: string): string => `dynamo_kvindexer_${rest}`;
  const requests = registry.counter(name('requests_total'), 'Requests.', ['endpoint', 'method']);
  const errors = registry.counter(name('errors_total'), 'Answers with status 4xx or 5xx.', [
    'endpoint',
    'status_class',
  ]);
  const durations = registry.histogram(name('request_duration_seconds'), 'Time to the answer.', DURATION_BOUNDS, [
    'endpoint',
  ]);
  const models = registry.gauge(name('models'), 'Pairs of model and routing group with an index.').with();
  const workers = registry.gauge(name('workers'), 'Registered workers.').with();
  const listeners = registry.gauge(name('listeners'), 'Subscriptions to workers, by status.', ['status']);
  const applied = registry.counter('dynamo_kvrouter_kv_cache_events_applied', 'KV events that reached an index.', [
    'event_type',
    'status',
  ]);
  const warnings = registry
    .counter('dynamo_kvrouter_kv_cache_event_warnings', 'Blocks stored where they were held already.', ['warning_kind'])
    .with('duplicate_store');
  const blocks = registry.gauge('stator_router_index_blocks', 'Blocks in all indexes.').with();
  const bytes = registry.gauge('stator_router_index_bytes', 'Memory taken by all indexes.').with();
  const evicted = registry
    .counter('stator_router_index_evicted_blocks_total', 'Blocks that left an index because it was full.')
    .with();
  return {
    registry,
    answered(path, method, status, elapsedMs) {
      requests.with(path, method).add();
      durations.with(path).observe(elapsedMs / 1000);
      if (status >= 400) errors.with(path, `${Math.floor(status / 100)}xx`).add();
    },
    applied: (type, status) => applied.with(type, status).add(),
    evicted: (count) => evicted.add(count),
    show: (read) =>
      registry.beforeScrape(() => {
        const state = read();
        models.set(state.models);
        workers.set(state.workers);
        blocks.set(state.indexBlocks);
        bytes.set(state.indexBytes);
        warnings.value = state.duplicateBlocks;
        for (const status of LISTENER_STATUSES) listeners.with(status).set(state.listeners.get(status) ?? 0);
      }),
  };
}
