import type { ErrorCode, ServeError } from '../../errors/index.ts';
import type { MetricRegistry } from './registry.ts';

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

/** Counts failures by class and reason. */
export function createFailureMetrics(registry: MetricRegistry) {
  const failures = registry.counter(
    'dynamo_frontend_failures_total',
    'Failures by class and reason.',
    'class',
    'reason',
  );
  return {
    /** Counts `error` under the class and the reason that belong to it. */
    failed({ code }: ServeError): void {
      const labels = LABELS[code];
      failures.with(labels.class, labels.reason).add();
    },
  };
}
