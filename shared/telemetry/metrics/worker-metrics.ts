import { type Clock, systemClock } from '../../clock/index.ts';
import { createRequestPlaneMetrics, type RequestPlaneMetrics } from './edge-metrics.ts';
import { type Counter, exposeUptime, type Gauge, type Histogram, MetricRegistry } from './registry.ts';

/** Prometheus' own default bounds, as Dynamo's workers use. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const ERROR_TYPES = [
  'deserialization',
  'invalid_message',
  'response_stream',
  'generate',
  'publish_response',
  'publish_final',
] as const;

/** Where in a request's handling a worker failed: label `error_type`. */
export type WorkerErrorType = (typeof ERROR_TYPES)[number];

/** How a request ended at a worker. */
export type WorkerOutcome = 'success' | 'cancelled' | WorkerErrorType;

export interface WorkerMetricsOptions {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
  readonly model: string;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** Where the metrics live, when the process has more of its own. Default: a registry of their own. */
  readonly registry?: MetricRegistry;
}

/** How a drain ended for one request: at the worker, at another one, or with an error. */
export type DrainOutcome = (typeof DRAIN_OUTCOMES)[number];

const DRAIN_OUTCOMES = ['finished', 'moved', 'failed'] as const;

/** The books of one request at a worker. */
export interface WorkerRequestMeter {
  /** The first answer left. Later calls do nothing. */
  firstResponse(): void;
  responseBytes(count: number): void;
  /** Closes the books. Later calls do nothing. */
  end(outcome: WorkerOutcome): void;
}

/** The metrics of a worker process. Nothing here throws or waits, apart from `render`. */
export interface WorkerMetrics {
  readonly registry: MetricRegistry;
  /** Observer of the plane that the worker serves on. */
  readonly requestPlane: RequestPlaneMetrics;
  /** A request of `requestBytes` bytes, 0 when unknown, was taken on. */
  requestStarted(requestBytes?: number): WorkerRequestMeter;
  /** So many requests more, or less, are at the engine. */
  atEngine(change: 1 | -1): void;
  /** So many requests more, or less, wait for a place at the engine. */
  queued(change: 1 | -1): void;
  /** A request found no place at the engine and none to wait. */
  refused(): void;
  /** What became of the requests that were under way when the worker began to drain. */
  drained(counts: Readonly<Record<DrainOutcome, number>>): void;
  /** KV cache of one data-parallel rank. */
  setLoad(load: { readonly dpRank: number; readonly usedKvBlocks: number; readonly totalKvBlocks: number }): void;
  setModelLoadTime(durationMs: number): void;
  /** KV events of the engine that never reached the publisher. */
  droppedKvEvents(count: number): void;
  readonly contentType: string;
  /** The text of the status server's `/metrics`. */
  render(): Promise<string>;
}

export function createWorkerMetrics(options: WorkerMetricsOptions): WorkerMetrics {
  const clock = options.clock ?? systemClock;
  const registry = options.registry ?? new MetricRegistry();
  const labels = [options.namespace, options.component, options.endpoint, options.model];
  const names = ['dynamo_namespace', 'dynamo_component', 'dynamo_endpoint', 'model'];
  const gauge = (name: string, help: string, more: readonly string[] = []) =>
    registry.gauge(`dynamo_component_${name}`, help, [...names, ...more]);

  exposeUptime(registry, clock, gauge('uptime_seconds', 'Seconds since the worker started.').with(...labels));
  const totalBlocks = gauge('total_blocks', 'KV blocks of a rank.', ['dp_rank']);
  const cacheUsage = gauge('gpu_cache_usage_percent', 'Share of the KV blocks in use, 0 to 1.', ['dp_rank']);
  const loadTime = gauge('model_load_time_seconds', 'Time that loading the model took.').with(...labels);
  const droppedEvents = registry
    .counter(
      'dynamo_component_kv_publisher_engines_dropped_events_total',
      'KV events of the engine that were lost.',
      names,
    )
    .with(...labels);
  const series = defineRequestSeries(registry, names, labels);
  const admission = defineAdmission(registry, names, labels);
  const drained = registry.counter(
    'stator_worker_drained_requests_total',
    'Requests under way when a drain began, by what became of them; failed = could not move and did not end in time.',
    [...names, 'outcome'],
  );
  for (const outcome of DRAIN_OUTCOMES) drained.with(...labels, outcome).add(0);
  return {
    registry,
    requestPlane: createRequestPlaneMetrics(registry),
    requestStarted: (requestBytes = 0) => startRequest(series, clock, requestBytes),
    atEngine: (change) => admission.running.add(change),
    queued: (change) => admission.waiting.add(change),
    refused: () => admission.refused.add(),
    drained(counts) {
      for (const outcome of DRAIN_OUTCOMES) drained.with(...labels, outcome).add(counts[outcome]);
    },
    setLoad({ dpRank, usedKvBlocks, totalKvBlocks }) {
      totalBlocks.with(...labels, `${dpRank}`).set(totalKvBlocks);
      cacheUsage.with(...labels, `${dpRank}`).set(totalKvBlocks === 0 ? 0 : usedKvBlocks / totalKvBlocks);
    },
    setModelLoadTime: (durationMs) => loadTime.set(durationMs / 1000),
    droppedKvEvents: (count) => droppedEvents.add(count),
    contentType: registry.contentType,
    render: () => registry.render(),
  };
}

/** Admission to the engine, under Dynamo's own names. */
function defineAdmission(registry: MetricRegistry, names: readonly string[], labels: readonly string[]) {
  const gauge = (name: string, help: string): Gauge => registry.gauge(name, help, names).with(...labels);
  return {
    running: gauge('dynamo_engine_request', 'Requests at the engine.'),
    waiting: gauge('dynamo_request_queue', 'Requests that wait for a place at the engine.'),
    refused: registry
      .counter('dynamo_rejection_request_total', 'Requests refused because the worker was full.', names)
      .with(...labels),
  };
}

interface RequestSeries {
  readonly requests: Counter;
  readonly requestBytes: Counter;
  readonly responseBytes: Counter;
  readonly cancellations: Counter;
  readonly errors: Readonly<Record<WorkerErrorType, Counter>>;
  readonly inflight: Gauge;
  readonly duration: Histogram;
  readonly firstResponse: Histogram;
}

function defineRequestSeries(
  registry: MetricRegistry,
  names: readonly string[],
  labels: readonly string[],
): RequestSeries {
  const counter = (name: string, help: string): Counter =>
    registry.counter(`dynamo_component_${name}`, help, names).with(...labels);
  const histogram = (name: string, help: string): Histogram =>
    registry.histogram(`dynamo_component_${name}`, help, SECONDS, names).with(...labels);
  const errors = registry.counter('dynamo_component_errors_total', 'Requests that failed, by where.', [
    ...names,
    'error_type',
  ]);
  return {
    requests: counter('requests_total', 'Requests taken on.'),
    requestBytes: counter('request_bytes_total', 'Bytes of requests.'),
    responseBytes: counter('response_bytes_total', 'Bytes of responses.'),
    cancellations: counter('cancellation_total', 'Requests cancelled before they had ended.'),
    errors: Object.fromEntries(ERROR_TYPES.map((type) => [type, errors.with(...labels, type)])) as Record<
      WorkerErrorType,
      Counter
    >,
    inflight: registry.gauge('dynamo_component_inflight_requests', 'Requests under way.', names).with(...labels),
    duration: histogram('request_duration_seconds', 'Time that a request took at the worker.'),
    firstResponse: histogram('time_to_first_response_seconds', 'Time to the first answer of a request.'),
  };
}

function startRequest(series: RequestSeries, clock: Clock, requestBytes: number): WorkerRequestMeter {
  const startedMs = clock.nowMs();
  let hasAnswered = false;
  let hasEnded = false;
  series.requests.add();
  series.requestBytes.add(requestBytes);
  series.inflight.add(1);
  return {
    firstResponse() {
      if (hasAnswered || hasEnded) return;
      hasAnswered = true;
      series.firstResponse.observe((clock.nowMs() - startedMs) / 1000);
    },
    responseBytes: (count) => series.responseBytes.add(count),
    end(outcome) {
      if (hasEnded) return;
      hasEnded = true;
      series.inflight.add(-1);
      series.duration.observe((clock.nowMs() - startedMs) / 1000);
      if (outcome === 'cancelled') series.cancellations.add();
      else if (outcome !== 'success') series.errors[outcome].add();
    },
  };
}
