import { reasonOf } from '../../errors/index.ts';

/**
 * How a call ended that had no answer of use. `throttled` and `busy`: the same call succeeds later. `gone`: it names
 * something that no longer exists. `refused`: it will not succeed while nothing else changes. `unreachable`: it may or
 * may not have taken effect.
 */
type AutoScalingFailure = 'throttled' | 'busy' | 'gone' | 'refused' | 'unreachable';

/** A call to Auto Scaling failed. `code` is AWS's, without `Fault` or `Exception` at its end. */
export class AutoScalingError extends Error {
  override readonly name = 'AutoScalingError';
  readonly kind: AutoScalingFailure;
  readonly code: string;

  constructor(kind: AutoScalingFailure, code: string, message: string, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
    this.code = code;
  }
}

const THROTTLED = /Throttl|RequestLimitExceeded|TooManyRequests|SlowDown|BandwidthLimitExceeded/;
const BUSY = /ScalingActivityInProgress|ResourceContention/;
const REFUSED =
  /AccessDenied|Unauthorized|NotAuthorized|Credentials|InvalidClientTokenId|UnrecognizedClient|SignatureDoesNotMatch|ExpiredToken|OptInRequired|MissingAuthenticationToken|MissingParameter|InvalidParameter|InvalidAction|LimitExceeded|InstanceRefreshInProgress|ActiveInstanceRefreshNotFound/;
/** Words of a ValidationError about an instance or a group that does not exist. */
const NOT_FOUND = /not found/i;

/** Returns what an error of the SDK means for the call `what`. */
export function toAutoScalingError(thrown: unknown, what: string): AutoScalingError {
  const name = thrown instanceof Error ? thrown.name : '';
  const reason = reasonOf(thrown).replaceAll(/\s+/g, ' ');
  const code = name.replace(/(Fault|Exception|Error)$/, '') || 'Unknown';
  const make = (kind: AutoScalingFailure, hint: string): AutoScalingError =>
    new AutoScalingError(kind, code, `${what}: ${name === '' ? reason : `${name}: ${reason}`}${hint}`, thrown);
  if (THROTTLED.test(name)) return make('throttled', '');
  if (BUSY.test(name)) return make('busy', '');
  if (name === 'ValidationError' && NOT_FOUND.test(reason)) {
    return new AutoScalingError('gone', 'NotFound', `${what}: ${reason}`, thrown);
  }
  if (name === 'ValidationError') return make('refused', '');
  if (REFUSED.test(name)) return make('refused', '. Check the rights of this process, and AWS_REGION');
  return make('unreachable', '. Check the network, AWS_REGION and AWS_ENDPOINT_URL_AUTO_SCALING');
}
