import type { WireError, WorkerErrorKind } from '../../errors/index.ts';
import type { CompletionUsage, EngineFinishReason, EngineOutput } from '../generation/engine-output.ts';

/** Reasons that Dynamo's frontends know. They refuse an output with another one. */
const FINISHES: ReadonlySet<unknown> = new Set(['eos', 'stop', 'length', 'cancelled', 'content_filter']);

/**
 * Returns an output as a frontend of Dynamo reads it: `LLMEngineOutput`, or the body of a worker that answers in the
 * form of the client.
 */
export function toDynamoOutput(output: EngineOutput): unknown {
  const { body, prompt_media: _, token_ids, finish_reason: reason, completion_usage: usage, ...rest } = output;
  if (body !== undefined && body !== null) return body;
  return {
    token_ids: token_ids ?? [],
    ...rest,
    ...(reason == null ? {} : { finish_reason: finishOf(reason) }),
    ...(usage == null ? {} : { completion_usage: usageOf(usage) }),
  };
}

function finishOf(reason: EngineFinishReason | string): unknown {
  if (reason === 'abort') return 'cancelled';
  if (typeof reason === 'object' || FINISHES.has(reason)) return reason;
  return { error: `the engine ended with ${reason}` };
}

function usageOf(usage: CompletionUsage): unknown {
  return { ...usage, total_tokens: usage.total_tokens ?? usage.prompt_tokens + usage.completion_tokens };
}

type Identity = readonly [legacy: string | { readonly Backend: string }, canonical: string, reason: string];

/**
 * Identities of errors on the wire. Releases before 1.6 read only the first, and refuse names that they do not know;
 * later ones read the other two.
 */
const IDENTITIES: Readonly<Record<WorkerErrorKind, Identity>> = {
  InvalidArgument: ['InvalidArgument', 'InvalidRequest', 'request.invalid_argument'],
  InvalidRequest: ['InvalidArgument', 'InvalidRequest', 'request.invalid'],
  NotFound: ['Unknown', 'NotFound', 'request.not_found'],
  PayloadTooLarge: ['InvalidArgument', 'PayloadTooLarge', 'request.payload_too_large'],
  UnsupportedMedia: ['InvalidArgument', 'UnsupportedMedia', 'request.unsupported_media'],
  Unauthenticated: ['Unknown', 'Unauthenticated', 'request.unauthenticated'],
  PermissionDenied: ['Unknown', 'PermissionDenied', 'request.permission_denied'],
  RateLimited: ['ResourceExhausted', 'RateLimited', 'request.rate_limited'],
  Conflict: ['Unknown', 'Conflict', 'request.conflict'],
  Cancelled: ['Cancelled', 'Cancelled', 'request.cancelled'],
  CancelledByClient: ['Cancelled', 'Cancelled', 'request.cancelled'],
  NotImplemented: ['Unknown', 'NotImplemented', 'runtime.not_implemented'],
  ResourceExhausted: ['ResourceExhausted', 'CapacityExhausted', 'capacity.pool_exhausted'],
  CapacityExhausted: ['ResourceExhausted', 'CapacityExhausted', 'capacity.exhausted'],
  WorkerOverloaded: ['ResourceExhausted', 'CapacityExhausted', 'capacity.worker_overloaded'],
  Unavailable: ['Unavailable', 'Unavailable', 'backend.unavailable'],
  WorkerUnavailable: ['WorkerUnavailable', 'Unavailable', 'backend.worker_unavailable'],
  CannotConnect: ['CannotConnect', 'Unavailable', 'transport.cannot_connect'],
  Disconnected: ['Disconnected', 'Unavailable', 'transport.disconnected'],
  ConnectionTimeout: ['ConnectionTimeout', 'DeadlineExceeded', 'transport.connection_timeout'],
  EngineShutdown: [{ Backend: 'EngineShutdown' }, 'Unavailable', 'backend.engine_shutdown'],
  StreamIncomplete: [{ Backend: 'StreamIncomplete' }, 'Unavailable', 'backend.stream_incomplete'],
  DeadlineExceeded: ['ResponseTimeout', 'DeadlineExceeded', 'request.deadline_exceeded'],
  ResponseTimeout: ['ResponseTimeout', 'DeadlineExceeded', 'backend.response_timeout'],
  BackendProtocol: ['Unknown', 'BackendProtocol', 'backend.protocol'],
  Internal: ['Unknown', 'Internal', 'runtime.internal'],
  Unknown: ['Unknown', 'Internal', 'runtime.unclassified'],
};

/** Returns a failure as a typed error of Dynamo. A text that is meant for the client is its public part. */
export function toTypedError({ kind, message, code }: WireError): Readonly<Record<string, unknown>> {
  const [error_type, canonical, reason] = IDENTITIES[kind];
  const isForClient = code !== undefined || kind === 'InvalidArgument' || kind === 'InvalidRequest';
  return {
    error_type,
    class: canonical,
    reason,
    message,
    ...(isForClient ? { public: { type: 'message', message } } : {}),
  };
}
