import { grpcStatusOf, reasonOf, ServeError, toServeError } from '../../errors/index.ts';
import { GrpcStatus, retryTrailers, STATUS, statusOf } from '../../grpc/index.ts';

/* Failures of requests in Dynamo's words, which clients of it look for. */

export function modelNotFound(name: string): GrpcStatus {
  return new GrpcStatus(STATUS.NOT_FOUND, `Model '${name}' not found`);
}

/** The model is known, and nobody can serve it now. */
export function modelUnavailable(retryAfterMs: number | undefined): GrpcStatus {
  return new GrpcStatus(STATUS.UNAVAILABLE, 'model temporarily unavailable', retryTrailers({ retryAfterMs }));
}

/** A request that makes no sense; failures of another kind stay as they are. */
export function parseFailure(thrown: unknown): GrpcStatus {
  const status = statusOf(thrown);
  const isOfBody = thrown instanceof ServeError && thrown.code !== 'headers_too_large';
  if (status.code !== STATUS.INVALID_ARGUMENT || !isOfBody) return status;
  return new GrpcStatus(status.code, `Failed to parse request: ${status.message}`);
}

/** The part of a failure that its request's own stream tells: what a worker made of it, with the class of that. */
export function failureText(error: ServeError): string {
  const words = reasonOf(error.cause ?? error);
  return error.worker === undefined ? words : `${error.worker}: ${words}`;
}

/** A worker failed while it worked, and said so: not the way to it, nor whoever asked. */
export function isEngineFailure(error: ServeError): boolean {
  return error.worker !== undefined && grpcStatusOf(error.code) !== STATUS.UNAVAILABLE && !isOwnWord(error);
}

/** A code that a worker's own code chose, or that says all there is to say. */
function isOwnWord({ code, cause }: ServeError): boolean {
  const isRaised = cause === undefined && code !== 'internal_error';
  return isRaised || code === 'server_overloaded' || code === 'deadline_exceeded' || code === 'client_closed_request';
}

/** How a call ends whose request failed. */
export function foldFailure(thrown: unknown): GrpcStatus {
  const error = toServeError(thrown);
  if (isEngineFailure(error)) {
    return new GrpcStatus(STATUS.INTERNAL, `Failed to fold completions stream: ${failureText(error)}`);
  }
  return dispatchFailure(error);
}

/** How a call ends whose request found no worker, or was not let to one. */
export function dispatchFailure(error: ServeError): GrpcStatus {
  const status = statusOf(error);
  if (error.code === 'server_overloaded') {
    const message = 'CapacityExhausted: All workers are busy, please retry later';
    return new GrpcStatus(status.code, message, status.trailers);
  }
  return status;
}
