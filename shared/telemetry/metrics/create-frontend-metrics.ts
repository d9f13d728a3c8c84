import { type Clock, systemClock } from '../../clock/index.ts';
import { type ErrorCode, limitNames, type ServeError } from '../../errors/index.ts';
import { type Logger, silentLogger } from '../log/logger.ts';
import { ActiveRequest } from './active-request.ts';
import type { BucketOverrides } from './buckets.ts';
import { TurnClock, watchEventLoop } from './event-loop.ts';
import { defineFrontendFamilies } from './frontend-families.ts';
import type { FrontendMetrics } from './frontend-metrics.ts';
import { modelRecorder, stageRecorder, workerRecorder } from './frontend-recorders.ts';
import { ModelSeriesTable } from './model-series.ts';
import { MetricRegistry } from './registry.ts';
import { createRequestPlaneMetrics } from './request-plane-metrics.ts';
import { exposeUptime } from './series.ts';

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
  /** Histogram ranges that the configuration sets. */
  readonly buckets?: BucketOverrides;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** Where the metrics live, when the process has more of its own. Default: a registry of their own. */
  readonly registry?: MetricRegistry;
  /** Hears of bucket settings that make no sense. Default: nobody. */
  readonly logger?: Logger;
  /** Models with series of their own. Default 1000; later names share one, `__other__`. */
  readonly modelsMax?: number;
}

/** Makes the metrics of a frontend process, every family at zero. */
export function createFrontendMetrics(options: FrontendMetricsOptions = {}): FrontendMetrics {
  const clock = options.clock ?? systemClock;
  const turnClock = new TurnClock(clock);
  const registry = options.registry ?? new MetricRegistry();
  const families = defineFrontendFamilies(registry, {
    prefix: options.prefix,
    buckets: options.buckets ?? {},
    logger: options.logger ?? silentLogger,
  });
  for (const limit of limitNames) families.limitsReached.with(limit); // at zero, so that the first refusal is a rise
  const models = new ModelSeriesTable(families, options.modelsMax ?? MODELS_MAX_DEFAULT, () =>
    registry.countOverflow(families.requests.name),
  );
  const workers = workerRecorder(families, registry);
  exposeUptime(registry, clock, families.uptime.with());
  return {
    registry,
    requestPlane: createRequestPlaneMetrics(registry),
    startRequest({ model, endpoint, requestType, startedMs = clock.nowMs() }) {
      const series = models.of(model);
      const route = series.route(endpoint, requestType);
      return new ActiveRequest({ clock, turnClock, startedMs }, series, route, workers.setWorker);
    },
    rejected: (model, endpoint) => families.rejections.with(models.of(model).model, endpoint).add(),
    cancelled: (model, endpoint, requestType) => models.of(model).route(endpoint, requestType).cancellations.add(),
    disconnected: () => families.disconnected.with().add(1),
    ignoredKeys(endpoint, keys) {
      for (const key of keys) families.ignoredKeys.with(endpoint, key).add();
    },
    failure: (failureClass, reason) => families.failures.with(failureClass, reason).add(),
    failed(error) {
      const labels = failureLabelsOf(error);
      families.failures.with(labels.class, labels.reason).add();
    },
    limitReached: (limit) => families.limitsReached.with(limit).add(),
    ...stageRecorder(families),
    ...modelRecorder(families, registry),
    ...workers,
    watchEventLoop: () => watchEventLoop(clock, families.eventLoopDelay.with(), families.eventLoopStalls.with()),
    contentType: registry.contentType,
    render: () => registry.render(),
  };
}

/** Under which class and reason `error` is counted. */
function failureLabelsOf(error: ServeError): FailureLabels {
  return LABELS[error.code];
}
