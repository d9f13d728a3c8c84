import { type Clock, systemClock } from '../../clock/index.ts';
import { type LimitName, limitNames } from '../../errors/index.ts';
import { ActiveRequest, type RequestMeter } from './active-request.ts';
import { BUCKETS, type Buckets } from './buckets.ts';
import { createRequestPlaneMetrics } from './edge-metrics.ts';
import { createEventLoopMetrics } from './event-loop.ts';
import { createFailureMetrics } from './failure-metrics.ts';
import { createModelMetrics } from './model-metrics.ts';
import { createModelSeries, type RequestTypeLabel } from './model-series.ts';
import { exposeUptime, MetricRegistry, metricPrefix } from './registry.ts';
import { createStageMetrics } from './stage-metrics.ts';
import { TurnClock } from './turn-clock.ts';
import { createWorkerFigures } from './worker-figures.ts';

/** Labels of a request. */
export interface RequestRoute {
  readonly model: string;
  /** `chat_completions`, `completions`, ... */
  readonly endpoint: string;
  readonly requestType: RequestTypeLabel;
  /** When the handler was entered, on the metrics' clock, if the model was not known then. Default now. */
  readonly startedMs?: number;
}

/**
 * Metrics of a frontend process, and the observer that the pipeline reports its steps to. Each metric is declared
 * beside the functions that count on it. Nothing here throws or waits, apart from `render`.
 */
export type FrontendMetrics = ReturnType<typeof createFrontendMetrics>;

const MODELS_MAX_DEFAULT = 1000;

export interface FrontendMetricsOptions {
  /** `--metrics-prefix`. Default `dynamo_frontend`; characters that a metric name cannot have become `_`. */
  readonly prefix?: string;
  /** Histogram ranges. @default those of the settings' defaults */
  readonly buckets?: Buckets;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** Models with series of their own. Default 1000; later names share one, `__other__`. */
  readonly modelsMax?: number;
}

/** Returns the metrics of a frontend process, every one at zero. */
export function createFrontendMetrics(options: FrontendMetricsOptions = {}) {
  const { prefix, buckets = BUCKETS, clock = systemClock } = options;
  const { modelsMax = MODELS_MAX_DEFAULT } = options;
  const registry = new MetricRegistry({ frontendPrefix: metricPrefix(prefix) });
  const turnClock = new TurnClock(clock);
  const seriesOf = createModelSeries(registry, buckets, modelsMax);
  const workers = createWorkerFigures(registry);
  const uptime = registry.gauge('dynamo_component_uptime_seconds', 'Seconds since the process started to count.');
  exposeUptime(registry, clock, uptime.with());
  return {
    registry,
    requestPlane: createRequestPlaneMetrics(registry),
    /** Returns a new meter for one request. Its times count from the entry of the handler. */
    startRequest({ model, endpoint, requestType, startedMs = clock.nowMs() }: RequestRoute): RequestMeter {
      const series = seriesOf(model);
      const route = series.route(endpoint, requestType);
      return new ActiveRequest({ clock, turnClock, startedMs }, series, route, workers.setWorker);
    },
    /** Returns the output tokens of a model so far. */
    outputTokensOf: (model: string) => seriesOf(model).outputTokens.value,
    /** Counts a request that was turned away because every worker was full. */
    rejected: (model: string, endpoint: string) => seriesOf(model).rejected(endpoint),
    cancelled: (model: string, endpoint: string, requestType: RequestTypeLabel) =>
      seriesOf(model).route(endpoint, requestType).cancellations.add(),
    /** Counts the time of an embeddings request that succeeded. */
    embedded: (model: string, durationMs: number) => seriesOf(model).embedded(durationMs),
    ...createHandlerMetrics(registry),
    ...createFailureMetrics(registry),
    ...createStageMetrics(registry),
    ...createModelMetrics(registry),
    ...workers,
    ...createEventLoopMetrics(registry, clock),
    contentType: registry.contentType,
    /** Returns the text of `/metrics`. */
    render: () => registry.render(),
  };
}

/** Counts what handlers see of requests and their clients, whatever the model. */
function createHandlerMetrics(registry: MetricRegistry) {
  const own = registry.under('stator_frontend_');
  const disconnected = registry
    .gauge('dynamo_frontend_disconnected_clients', 'Clients that left before the response had ended.')
    .with();
  const handlerFailures = own
    .counter(
      'handler_failures_total',
      'Requests that a fault of our own ended before they were counted as requests of a model.',
    )
    .with();
  const websockets = own.gauge('websockets', 'WebSockets that are open.').with();
  const limits = own.counter(
    'limits_reached_total',
    'Requests, or what workers made of them, that went beyond a limit.',
    'limit',
  );
  for (const limit of limitNames) limits.with(limit); // at zero, so that the first refusal is a rise
  const ignoredKeys = own.counter(
    'ignored_keys_total',
    'Requests with a root key that their route does not know, by that key; `other` for keys of no API.',
    'endpoint',
    'key',
  );
  const leftOut = own.counter(
    'left_out_total',
    'Requests of which the model was not told something: hosted tools, parts of the history, parameters, pictures of tools.',
    'endpoint',
    'kind',
  );
  return {
    /** Counts a client that left before its response had ended. */
    disconnected: () => disconnected.add(1),
    /** Counts a request that a fault of our own ended before it was tracked. */
    handlerFailed: () => handlerFailures.add(),
    /** Shows how many WebSockets are open now. */
    openSockets: (count: number) => websockets.set(count),
    /** Counts a request, or what a worker made of one, that went beyond a limit. */
    limitReached: (limit: LimitName) => limits.with(limit).add(),
    /** Counts a request with root keys that its route ignores. @param keys from a closed list: they become labels */
    ignoredKeys(endpoint: string, keys: readonly string[]): void {
      for (const key of keys) ignoredKeys.with(endpoint, key).add();
    },
    /** Counts a request of which the model was not told something. @param kinds from a closed list */
    leftOut(endpoint: string, kinds: readonly string[]): void {
      for (const kind of kinds) leftOut.with(endpoint, kind).add();
    },
  };
}
