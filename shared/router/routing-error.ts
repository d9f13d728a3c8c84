import { type ErrorCode, ServeError } from '../errors/index.ts';

/** Why no worker took a request. */
export type RoutingFailure =
  | { readonly kind: 'NoEndpoints' }
  | { readonly kind: 'PinnedWorkerNotAllowed'; readonly workerId: string }
  | { readonly kind: 'AllEligibleWorkersOverloaded' }
  | { readonly kind: 'PinnedWorkerOverloaded'; readonly workerId: string }
  | {
      readonly kind: 'QueueRejected';
      readonly policyClass: string;
      readonly limit: QueueLimit;
      readonly current: number;
      readonly max: number;
    }
  | {
      readonly kind: 'DoNotQueue';
      readonly policyClass: string;
      readonly pendingRequests: number;
      readonly pendingPromptTokens: number;
      readonly pendingCachedTokens: number;
    }
  | { readonly kind: 'DeadlineExceeded' }
  | { readonly kind: 'SubscriberShutdown' }
  | { readonly kind: 'BookingFailed'; readonly requestId: string };

/** What a full queue is full of; also the label of its metric. */
export type QueueLimit = 'request_limit' | 'raw_isl_token_limit' | 'cached_token_limit';

/** Code and text for the client. A full fleet is `server_overloaded`, a missing one `service_unavailable`. */
const SHOWN: Readonly<Record<RoutingFailure['kind'], readonly [ErrorCode, string]>> = {
  NoEndpoints: ['service_unavailable', 'Service temporarily unavailable'],
  PinnedWorkerNotAllowed: ['invalid_value', 'Invalid request: the worker it names is not among those it allows'],
  AllEligibleWorkersOverloaded: ['server_overloaded', 'Service temporarily overloaded'],
  PinnedWorkerOverloaded: ['server_overloaded', 'Service temporarily overloaded'],
  QueueRejected: ['server_overloaded', 'Service temporarily overloaded'],
  DoNotQueue: ['server_overloaded', 'Service temporarily overloaded'],
  DeadlineExceeded: ['deadline_exceeded', 'Request deadline exceeded'],
  SubscriberShutdown: ['service_unavailable', 'Service temporarily unavailable'],
  BookingFailed: ['invalid_value', 'Invalid request: a request of this id is under way'],
};

/** A failure to find a worker: a `ServeError` for clients, `failure` and `detail` for services and operators. */
export class RoutingError extends ServeError {
  readonly failure: RoutingFailure;

  constructor(failure: RoutingFailure) {
    const [code, message] = SHOWN[failure.kind];
    const param = failure.kind === 'PinnedWorkerNotAllowed' ? 'nvext.backend_instance_id' : undefined;
    super(code, message, { param, cause: new Error(describeFailure(failure)) });
    this.failure = failure;
  }

  /** One line for operators. */
  get detail(): string {
    return describeFailure(this.failure);
  }
}

/** Whether the failure means a full fleet rather than a missing one: it keeps that type through every leg of a request. */
export function isOverload({ kind }: RoutingFailure): boolean {
  return kind === 'AllEligibleWorkersOverloaded' || kind === 'PinnedWorkerOverloaded' || kind === 'QueueRejected';
}

/** One line for operators. */
export function describeFailure(failure: RoutingFailure): string {
  switch (failure.kind) {
    case 'NoEndpoints':
      return 'no endpoints available to route work';
    case 'PinnedWorkerNotAllowed':
      return `pinned worker ${failure.workerId} is not in allowed worker set`;
    case 'AllEligibleWorkersOverloaded':
      return 'all eligible workers are overloaded';
    case 'PinnedWorkerOverloaded':
      return `pinned worker ${failure.workerId} is overloaded`;
    case 'QueueRejected':
      return `queue of class ${failure.policyClass} is full: ${failure.limit} ${failure.current} of ${failure.max}`;
    case 'DoNotQueue':
      return `every eligible worker is busy and the request must not wait in class ${failure.policyClass}`;
    case 'DeadlineExceeded':
      return 'deadline passed while waiting for a worker';
    case 'SubscriberShutdown':
      return 'router is shutting down';
    case 'BookingFailed':
      return `request ${failure.requestId} is booked already`;
  }
}
