import { type Clock, systemClock } from '../../clock/index.ts';
import { createRequestPlaneMetrics } from './edge-metrics.ts';
import { exposeUptime, MetricRegistry, type MetricScope } from './registry.ts';

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

/** Meter of one request at a worker. */
export interface WorkerRequestMeter {
  /** The first answer left. Later calls do nothing. */
  firstResponse(): void;
  responseBytes(count: number): void;
  /** Ends the request and counts its outcome. Later calls do nothing. */
  end(outcome: WorkerOutcome): void;
}

/** The metrics of a worker process. Nothing here throws or waits, apart from `render`. */
export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;

export function createWorkerMetrics(options: WorkerMetricsOptions) {
  const { clock = systemClock, registry = new MetricRegistry() } = options;
  const labels = {
    dynamo_namespace: options.namespace,
    dynamo_component: options.component,
    dynamo_endpoint: options.endpoint,
    model: options.model,
  };
  const component = registry.under('dynamo_component_', labels);
  const { gauge } = component;
  exposeUptime(registry, clock, gauge('uptime_seconds', 'Seconds since the worker started.').with());
  const totalBlocks = gauge('total_blocks', 'KV blocks of a rank.', 'dp_rank');
  const cacheUsage = gauge('gpu_cache_usage_percent', 'Share of the KV blocks in use, 0 to 1.', 'dp_rank');
  const loadTime = gauge('model_load_time_seconds', 'Time that loading the model took.').with();
  const droppedEvents = component
    .counter('kv_publisher_engines_dropped_events_total', 'KV events of the engine that were lost.')
    .with();
  const series = requestSeries(component);
  // Admission to the engine, under Dynamo's own names.
  const admission = registry.under('dynamo_', labels);
  const running = admission.gauge('engine_request', 'Requests at the engine.').with();
  const waiting = admission.gauge('request_queue', 'Requests that wait for a place at the engine.').with();
  const refused = admission.counter('rejection_request_total', 'Requests refused because the worker was full.').with();
  const own = registry.under('stator_worker_', labels);
  const drained = own.counter(
    'drained_requests_total',
    'Requests under way when a drain began, by what became of them; failed = could not move and did not end in time.',
    'outcome',
  );
  const missingEvents = own
    .gauge('kv_events_missing', '1 while KV events that the engine was asked for do not come, else 0.')
    .with();
  const uncountedPlaces = own
    .counter(
      'uncounted_places_total',
      'Places promised to requests that were not counted, as too many were on their way.',
    )
    .with();
  for (const outcome of DRAIN_OUTCOMES) drained.with(outcome);
  return {
    registry,
    /** Observer of the plane that the worker serves on. */
    requestPlane: createRequestPlaneMetrics(registry),
    /** A request of `requestBytes` bytes, 0 when unknown, was taken on. */
    requestStarted: (requestBytes = 0) => startRequest(series, clock, requestBytes),
    /** Counts one request more, or one less, at the engine. */
    atEngine: (change: 1 | -1) => running.add(change),
    /** Counts one request more, or one less, that waits for a place at the engine. */
    queued: (change: 1 | -1) => waiting.add(change),
    /** A request found no place at the engine and none to wait. */
    refused: () => refused.add(),
    /** Counts the outcomes of the requests that were under way when the worker began to drain. */
    drained(counts: Readonly<Record<DrainOutcome, number>>): void {
      for (const outcome of DRAIN_OUTCOMES) drained.with(outcome).add(counts[outcome]);
    },
    /** KV cache of one data-parallel rank. */
    setLoad({ dpRank, usedKvBlocks, totalKvBlocks }: RankLoad): void {
      totalBlocks.with(`${dpRank}`).set(totalKvBlocks);
      cacheUsage.with(`${dpRank}`).set(totalKvBlocks === 0 ? 0 : usedKvBlocks / totalKvBlocks);
    },
    setModelLoadTime: (durationMs: number) => loadTime.set(durationMs / 1000),
    /** KV events of the engine that never reached the publisher. */
    droppedKvEvents: (count: number) => droppedEvents.add(count),
    /** Whether KV events that the engine was asked for do not come. */
    kvEventsMissing: (isMissing: boolean) => missingEvents.set(isMissing ? 1 : 0),
    /** A request was promised a place that no other one sees. */
    uncountedPlace: () => uncountedPlaces.add(),
    contentType: registry.contentType,
    /** The text of the status server's `/metrics`. */
    render: () => registry.render(),
  };
}

interface RankLoad {
  readonly dpRank: number;
  readonly usedKvBlocks: number;
  readonly totalKvBlocks: number;
}

type RequestSeries = ReturnType<typeof requestSeries>;

function requestSeries({ counter, gauge, histogram }: MetricScope) {
  const errors = counter('errors_total', 'Requests that failed, by where.', 'error_type');
  for (const type of ERROR_TYPES) errors.with(type);
  return {
    errors,
    requests: counter('requests_total', 'Requests taken on.').with(),
    requestBytes: counter('request_bytes_total', 'Bytes of requests.').with(),
    responseBytes: counter('response_bytes_total', 'Bytes of responses.').with(),
    cancellations: counter('cancellation_total', 'Requests cancelled before they had ended.').with(),
    inflight: gauge('inflight_requests', 'Requests under way.').with(),
    duration: histogram('request_duration_seconds', 'Time that a request took at the worker.', SECONDS).with(),
    firstResponse: histogram(
      'time_to_first_response_seconds',
      'Time to the first answer of a request.',
      SECONDS,
    ).with(),
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
      else if (outcome !== 'success') series.errors.with(outcome).add();
    },
  };
}
