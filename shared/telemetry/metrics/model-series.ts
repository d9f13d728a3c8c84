import { type Buckets, logBounds } from './buckets.ts';
import { type Counter, type MetricRegistry, OVERFLOW_LABEL } from './registry.ts';

const ROUTE_LABELS = ['model', 'endpoint', 'request_type'];

/** Metrics that every request of a model counts on. */
type RequestFamilies = ReturnType<typeof requestFamilies>;

function requestFamilies(registry: MetricRegistry, buckets: Buckets) {
  const { counter, gauge, histogram } = registry.under('dynamo_frontend_');
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

/** Route family and kind of response of a request: labels `endpoint` and `request_type`. */
export type RequestTypeLabel = 'unary' | 'stream';

/** Counters of one model on one route, looked up once. */
export type RouteSeries = ReturnType<typeof routeSeries>;

function routeSeries(families: RequestFamilies, ...labels: readonly [string, string, RequestTypeLabel]) {
  const success = families.requests.with(...labels, 'success', '');
  const errors = new Map<string, Counter>(); // error types are a closed list
  return {
    started: families.started.with(...labels),
    cancellations: families.cancellations.with(...labels),
    /** The counter of requests that ended so; `errorType` is undefined for success. */
    ended(errorType: string | undefined): Counter {
      if (errorType === undefined) return success;
      let counter = errors.get(errorType);
      if (counter === undefined) {
        counter = families.requests.with(...labels, 'error', errorType);
        errors.set(errorType, counter);
      }
      return counter;
    },
  };
}

/** Every series of one model that a request touches, looked up once. */
export type ModelSeries = ReturnType<typeof modelSeries>;

function modelSeries(families: RequestFamilies, model: string) {
  // Endpoints are a closed list.
  const routes = { unary: new Map<string, RouteSeries>(), stream: new Map<string, RouteSeries>() };
  return {
    model,
    inflight: families.inflight.with(model),
    active: families.active.with(model),
    queued: families.queued.with(model),
    duration: families.duration.with(model),
    inputTokens: families.inputTokens.with(model),
    outputLength: families.outputLength.with(model),
    cachedTokens: families.cachedTokens.with(model),
    outputTokens: families.outputTokens.with(model),
    ttft: families.ttft.with(model),
    itl: families.itl.with(model),
    /** Counts a request that was turned away because every worker was full. */
    rejected: (endpoint: string) => families.rejections.with(model, endpoint).add(),
    /** Counts the time of an embeddings request that succeeded. */
    embedded: (durationMs: number) => families.embeddingLatency.with(model).observe(durationMs / 1000),
    route(endpoint: string, requestType: RequestTypeLabel): RouteSeries {
      let route = routes[requestType].get(endpoint);
      if (route === undefined) {
        route = routeSeries(families, model, endpoint, requestType);
        routes[requestType].set(endpoint, route);
      }
      return route;
    },
  };
}

/**
 * The series of every model asked for so far, by its name. Names can come from clients, so there is a bound: what comes
 * after `modelsMax` names counts on one shared model, `__other__`.
 */
export function createModelSeries(registry: MetricRegistry, buckets: Buckets, modelsMax: number) {
  const families = requestFamilies(registry, buckets);
  const models = new Map<string, ModelSeries>();
  let other: ModelSeries | undefined;
  return (model: string): ModelSeries => {
    let series = models.get(model);
    if (series !== undefined) return series;
    if (models.size >= modelsMax) {
      registry.countOverflow(families.requests.name);
      other ??= modelSeries(families, OVERFLOW_LABEL);
      return other;
    }
    series = modelSeries(families, model);
    models.set(model, series);
    return series;
  };
}
