import { type Clock, systemClock } from '../../clock/index.ts';
import { type ErrorCode, type LimitName, limitNames, type ServeError } from '../../errors/index.ts';
import { ActiveRequest, modelTable, type RequestMeter, type RequestTypeLabel } from './active-request.ts';
import { BUCKETS, type Buckets } from './buckets.ts';
import { createRequestPlaneMetrics } from './edge-metrics.ts';
import { defineFrontendFamilies } from './frontend-families.ts';
import { modelRecorder, stageRecorder, TurnClock, watchEventLoop, workerRecorder } from './frontend-recorders.ts';
import { exposeUptime, MetricRegistry, metricPrefix } from './registry.ts';

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
 * The metrics of a frontend process; also the observer that the pipeline reports its steps to.
 * Nothing here throws or waits, apart from `render`.
 */
export type FrontendMetrics = ReturnType<typeof createFrontendMetrics>;

/** Labels of the failures counter. */
interface FailureLabels {
  readonly class: string;
  readonly reason: string;
}

const INVALID: FailureLabels = { class: 'InvalidRequest', reason: 'request.invalid' };
const NOT_FOUND: FailureLabels = { class: 'NotFound', reason: 'request.not_found' };
const TOO_LARGE: FailureLabels = { class: 'PayloadTooLarge', reason: 'request.payload_too_large' };
const RATE_LIMITED: FailureLabels = { class: 'RateLimited', reason: 'request.rate_limited' };
const UNAVAILABLE: FailureLabels = { class: 'Unavailable', reason: 'backend.unavailable' };

const LABELS: Readonly<Record<ErrorCode, FailureLabels>> = {
  invalid_value: INVALID,
  missing_required_parameter: INVALID,
  unknown_parameter: INVALID,
  invalid_json: INVALID,
  context_length_exceeded: INVALID,
  unsupported_parameter: INVALID,
  method_not_allowed: INVALID,
  invalid_api_key: { class: 'Unauthenticated', reason: 'request.unauthenticated' },
  insufficient_permissions: { class: 'PermissionDenied', reason: 'request.permission_denied' },
  model_not_found: NOT_FOUND,
  not_found: NOT_FOUND,
  previous_response_not_found: NOT_FOUND,
  request_too_large: TOO_LARGE,
  headers_too_large: TOO_LARGE,
  websocket_not_supported: INVALID,
  unsupported_media_type: { class: 'UnsupportedMedia', reason: 'request.unsupported_media' },
  rate_limit_exceeded: RATE_LIMITED,
  insufficient_quota: RATE_LIMITED,
  client_closed_request: { class: 'Cancelled', reason: 'request.cancelled' },
  internal_error: { class: 'Internal', reason: 'backend.unknown' },
  bad_worker_response: { class: 'BackendProtocol', reason: 'backend.protocol' },
  not_implemented: { class: 'NotImplemented', reason: 'runtime.not_implemented' },
  server_overloaded: { class: 'CapacityExhausted', reason: 'capacity.exhausted' },
  service_unavailable: UNAVAILABLE,
  worker_lost: UNAVAILABLE,
  deadline_exceeded: { class: 'DeadlineExceeded', reason: 'request.deadline_exceeded' },
};

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

/** Makes the metrics of a frontend process, every family at zero. */
export function createFrontendMetrics(options: FrontendMetricsOptions = {}) {
  const { prefix, buckets = BUCKETS, clock = systemClock } = options;
  const { modelsMax = MODELS_MAX_DEFAULT } = options;
  const registry = new MetricRegistry({ frontendPrefix: metricPrefix(prefix) });
  const turnClock = new TurnClock(clock);
  const families = defineFrontendFamilies(registry, buckets);
  for (const limit of limitNames) families.limitsReached.with(limit); // at zero, so that the first refusal is a rise
  const seriesOf = modelTable(families, modelsMax, () => registry.countOverflow(families.requests.name));
  const workers = workerRecorder(families, registry);
  exposeUptime(registry, clock, families.uptime);
  return {
    registry,
    requestPlane: createRequestPlaneMetrics(registry),
    /** Returns a new meter for one request. Its times count from the entry of the handler. */
    startRequest({ model, endpoint, requestType, startedMs = clock.nowMs() }: RequestRoute): RequestMeter {
      const series = seriesOf(model);
      const route = series.route(endpoint, requestType);
      return new ActiveRequest({ clock, turnClock, startedMs }, series, route, workers.setWorker);
    },
    /** Every worker was full. */
    rejected: (model: string, endpoint: string) => families.rejections.with(seriesOf(model).model, endpoint).add(),
    cancelled: (model: string, endpoint: string, requestType: RequestTypeLabel) =>
      seriesOf(model).route(endpoint, requestType).cancellations.add(),
    /** A client left before its response had ended. */
    disconnected: () => families.disconnected.with().add(1),
    /** A request had root keys that its route ignores. @param keys from a closed list: they become labels */
    ignoredKeys(endpoint: string, keys: readonly string[]): void {
      for (const key of keys) families.ignoredKeys.with(endpoint, key).add();
    },
    /** The model of a request was not told of something in it. @param kinds from a closed list */
    leftOut(endpoint: string, kinds: readonly string[]): void {
      for (const kind of kinds) families.leftOut.with(endpoint, kind).add();
    },
    /** Counts `error` under the class and the reason that belong to it. */
    failed({ code }: ServeError): void {
      const labels = LABELS[code];
      families.failures.with(labels.class, labels.reason).add();
    },
    /** Counts a request that a fault of our own ended before it was tracked. */
    handlerFailed: () => families.handlerFailures.add(),
    /** So many WebSockets are open now. */
    openSockets: (count: number) => families.websockets.set(count),
    /** A request, or what a worker made of one, went beyond a limit. */
    limitReached: (limit: LimitName) => families.limitsReached.with(limit).add(),
    ...stageRecorder(families),
    ...modelRecorder(families, registry),
    ...workers,
    /** Starts to measure delays of the event loop. Not for functions. */
    watchEventLoop: () => watchEventLoop(clock, families.eventLoopDelay, families.eventLoopStalls),
    contentType: registry.contentType,
    /** The text of `/metrics`. */
    render: () => registry.render(),
  };
}
