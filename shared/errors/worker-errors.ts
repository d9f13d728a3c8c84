import { type ErrorCode, httpStatusOf } from './codes.ts';
import { reasonOf, ServeError, type ServeErrorOptions } from './serve-error.ts';

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

// A code that stands alone means the first class that has it (`kindOfCode`): the one that claims least.
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
  DeadlineExceeded: { code: 'deadline_exceeded', message: 'Request deadline exceeded' },
  ResponseTimeout: TIMED_OUT,
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

/** What a bare HTTP status of a worker stands for (http-api.md, section 2.4; ruling 2 for 503 and 529). */
const ASSERTED: Readonly<Record<number, WorkerErrorKind>> = {
  401: 'Unauthenticated',
  403: 'PermissionDenied',
  404: 'NotFound',
  409: 'Conflict',
  413: 'PayloadTooLarge',
  415: 'UnsupportedMedia',
  429: 'RateLimited',
  499: 'Cancelled',
  502: 'BackendProtocol',
  503: 'Unavailable',
  529: 'ResourceExhausted',
};

interface WorkerErrorOptions {
  /** HTTP status that the worker asserts. Read only where the class itself says little: see `workerError`. */
  readonly status?: number | undefined;
  readonly param?: string | undefined;
}

/**
 * A failure of class `kind`; `diagnostics` stays in `cause`, for logs alone, unless the class is the client's own mistake.
 *
 * An asserted status counts for two sorts of classes. A client's mistake keeps its text and takes any status from 400 to
 * 499, 422 as 400. A class that says nothing (`Internal`, `Unknown`) becomes the class that the status stands for, with
 * that class's own text; a number that stands for none is an internal error. All other classes say more than a number.
 */
export function workerError(
  kind: WorkerErrorKind,
  diagnostics?: unknown,
  options: WorkerErrorOptions = {},
): ServeError {
  const row = rowOf(kind);
  const { param } = options;
  const status = options.status === 422 ? 400 : options.status;
  const isMistake = isClientStatus(status);
  if (row.showsMessage) {
    const message = diagnostics === undefined ? row.message : reasonOf(diagnostics);
    return failure(row, kind, message, { cause: diagnostics, param, status: isMistake ? status : undefined });
  }
  if (row !== INTERNAL || status === undefined) return failure(row, kind, row.message, { cause: diagnostics, param });
  const asserted = ASSERTED[status] ?? (isMistake ? 'InvalidRequest' : kind);
  const meant = rowOf(asserted);
  return failure(meant, asserted, meant.message, { cause: diagnostics, param, status: isMistake ? status : undefined });
}

function failure(row: KindRow, worker: WorkerErrorKind, message: string, options: ServeErrorOptions): ServeError {
  return new ServeError(row.code, message, { ...options, worker });
}

function isClientStatus(status: number | undefined): boolean {
  return status !== undefined && Number.isInteger(status) && status >= 400 && status < 500;
}

/** The wire form of any failure inside a worker. */
export function toWire(thrown: unknown): WireError {
  if (!(thrown instanceof ServeError)) return { kind: 'Unknown', message: reasonOf(thrown) };
  const kind = thrown.worker ?? kindOfCode(thrown.code);
  // What the client may read travels as it is; otherwise the wire carries what operators want to read.
  const isShown = rowOf(kind).showsMessage === true || thrown.cause === undefined;
  const message = isShown ? thrown.message : reasonOf(thrown.cause);
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

/** The class of a failure that a worker raised by code alone: the first with that code, else the nearest by its status. */
function kindOfCode(code: ErrorCode): WorkerErrorKind {
  for (const [kind, row] of Object.entries(KINDS) as [WorkerErrorKind, KindRow][]) if (row.code === code) return kind;
  const status = httpStatusOf(code);
  return ASSERTED[status] ?? (isClientStatus(status) ? 'InvalidArgument' : 'Unknown');
}
