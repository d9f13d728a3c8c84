import type { ErrorCode } from './codes.ts';
import { reasonOf, ServeError } from './serve-error.ts';

/** What each class of failure of a worker or of the way to it means (runtime-and-workers.md, sections 4.9, 7.1, 7.4). */
interface KindRow {
  readonly code: ErrorCode;
  /** What the client reads. Never the worker's own diagnostics, unless `showsMessage`. */
  readonly message: string;
  readonly showsMessage?: true;
  /** The request may go on at another worker. */
  readonly migrates?: true;
  /** The worker gets no new request for a while. */
  readonly inhibits?: true;
}

const INTERNAL: KindRow = { code: 'internal_error', message: 'Internal server error' };
const INVALID: KindRow = { code: 'invalid_value', message: 'Invalid request', showsMessage: true };
const UNAVAILABLE: KindRow = { code: 'service_unavailable', message: 'Service temporarily unavailable' };
const OVERLOADED: KindRow = { code: 'server_overloaded', message: 'Service temporarily overloaded' };
const LOST: KindRow = {
  code: 'worker_lost',
  message: 'Service temporarily unavailable',
  migrates: true,
  inhibits: true,
};
const CANCELLED: KindRow = { code: 'client_closed_request', message: 'Request cancelled' };
const TIMED_OUT: KindRow = {
  code: 'deadline_exceeded',
  message: 'Request deadline exceeded',
  migrates: true,
  inhibits: true,
};

const KINDS = {
  InvalidArgument: INVALID,
  InvalidRequest: INVALID,
  NotFound: { code: 'not_found', message: 'Resource not found' },
  PayloadTooLarge: { code: 'request_too_large', message: 'Payload too large' },
  UnsupportedMedia: { code: 'unsupported_media_type', message: 'Unsupported media type' },
  Unauthenticated: { code: 'invalid_api_key', message: 'Authentication required' },
  PermissionDenied: { code: 'insufficient_permissions', message: 'Permission denied' },
  RateLimited: { code: 'rate_limit_exceeded', message: 'Rate limit exceeded' },
  Conflict: { code: 'invalid_value', message: 'Conflict' },
  Cancelled: CANCELLED,
  NotImplemented: { code: 'not_implemented', message: 'Not implemented' },
  ResourceExhausted: OVERLOADED,
  CapacityExhausted: OVERLOADED,
  WorkerOverloaded: { ...OVERLOADED, migrates: true },
  Unavailable: UNAVAILABLE,
  WorkerUnavailable: { ...UNAVAILABLE, migrates: true },
  CannotConnect: LOST,
  Disconnected: LOST,
  ConnectionTimeout: LOST,
  EngineShutdown: LOST,
  StreamIncomplete: LOST,
  ResponseTimeout: TIMED_OUT,
  DeadlineExceeded: { code: 'deadline_exceeded', message: 'Request deadline exceeded' },
  BackendProtocol: { code: 'bad_worker_response', message: 'Bad gateway' },
  Internal: INTERNAL,
  Unknown: INTERNAL,
} as const satisfies Record<string, KindRow>;

/** Class of a failure that a worker reports or that the request plane meets. */
export type WorkerErrorKind = keyof typeof KINDS;

/** A failure as it travels in PROLOGUE and ERROR frames. */
export interface WireError {
  readonly kind: WorkerErrorKind;
  /** For operators' logs. Shown to a client only for invalid arguments. */
  readonly message: string;
  /** HTTP status that the worker asserts, if it does. */
  readonly status?: number | undefined;
  readonly param?: string | undefined;
}

function rowOf(kind: WorkerErrorKind): KindRow {
  return KINDS[kind];
}

/** A failure of class `kind`; `diagnostics` stays in `cause`, for logs alone, unless the class is the client's own mistake. */
export function workerError(
  kind: WorkerErrorKind,
  diagnostics?: unknown,
  options: { status?: number | undefined; param?: string | undefined } = {},
): ServeError {
  const row = rowOf(kind);
  const message = row.showsMessage && diagnostics !== undefined ? reasonOf(diagnostics) : row.message;
  return new ServeError(row.code, message, { worker: kind, cause: diagnostics, ...options });
}

/** The wire form of any failure inside a worker. */
export function toWire(thrown: unknown): WireError {
  if (!(thrown instanceof ServeError)) return { kind: 'Unknown', message: reasonOf(thrown) };
  const kind = thrown.worker ?? kindOfCode(thrown.code);
  const message = thrown.cause === undefined ? thrown.message : reasonOf(thrown.cause);
  return { kind, message, status: thrown.assertedStatus, param: thrown.param };
}

/** The failure that a wire record stands for. Unknown class names read as `Unknown`. */
export function fromWire(wire: WireError): ServeError {
  const kind: WorkerErrorKind = Object.hasOwn(KINDS, wire.kind) ? wire.kind : 'Unknown';
  return workerError(kind, wire.message, { status: wire.status, param: wire.param });
}

/** Whether the request may be sent to another worker after this failure. */
export function isMigratable(error: ServeError): boolean {
  return error.worker !== undefined && rowOf(error.worker).migrates === true;
}

/** Whether the worker that failed so should get no new request for a while. */
export function isInhibiting(error: ServeError): boolean {
  return error.worker !== undefined && rowOf(error.worker).inhibits === true;
}

function kindOfCode(code: ErrorCode): WorkerErrorKind {
  for (const [kind, row] of Object.entries(KINDS) as [WorkerErrorKind, KindRow][]) if (row.code === code) return kind;
  return 'Unknown';
}
