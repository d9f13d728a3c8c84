import { codeRow, type ErrorCode } from './codes.ts';

/** Meaning of one class of failure of a worker, or of the connection to it. */
export interface KindRow {
  readonly code: ErrorCode;
  /** Text for the client. Never the worker's own diagnostics, unless `showsMessage`. */
  readonly message: string;
  readonly showsMessage?: true;
  /** Whether the request may continue on another worker. */
  readonly migrates?: true;
  /** Whether the worker gets no new request for a while. */
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

// A code without a class means the first class with that code (`kindOfCode`), which is the most general one.
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
  CancelledByClient: CANCELLED,
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

/** Returns the row of `kind`. */
export function rowOf(kind: WorkerErrorKind): KindRow {
  return KINDS[kind];
}

/** Whether a peer sent a known name of a class. */
export function isWorkerErrorKind(text: string): text is WorkerErrorKind {
  return Object.hasOwn(KINDS, text);
}

/** Whether `kind` says so little about the failure that a status can say more. */
export function saysNothing(kind: WorkerErrorKind): boolean {
  return rowOf(kind) === INTERNAL;
}

/** Class for a bare HTTP status of a worker. */
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

/** Returns the class that a bare HTTP status stands for, if any. */
export function kindOfStatus(status: number): WorkerErrorKind | undefined {
  return ASSERTED[status];
}

/** Whether `status` blames the client for the failure. */
export function isClientStatus(status: number | undefined): boolean {
  return status !== undefined && Number.isInteger(status) && status >= 400 && status < 500;
}

/**
 * Returns the class of a failure that a worker raised only by code: the first class with that code, otherwise the
 * nearest by its status.
 */
export function kindOfCode(code: ErrorCode): WorkerErrorKind {
  for (const [kind, row] of Object.entries(KINDS) as [WorkerErrorKind, KindRow][]) if (row.code === code) return kind;
  const status = codeRow(code).status;
  return ASSERTED[status] ?? (isClientStatus(status) ? 'InvalidArgument' : 'Unknown');
}
