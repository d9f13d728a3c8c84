import { type ErrorCode, isErrorCode } from './codes.ts';
import type { LimitName } from './limits.ts';
import { reasonOf, ServeError, type ServeErrorOptions } from './serve-error.ts';
import { saysTooLong } from './too-long.ts';
import {
  isClientStatus,
  isWorkerErrorKind,
  type KindRow,
  kindOfCode,
  kindOfStatus,
  rowOf,
  saysNothing,
  type WorkerErrorKind,
} from './worker-kinds.ts';

/** Failure as it travels in PROLOGUE and ERROR frames. */
export interface WireError {
  readonly kind: WorkerErrorKind;
  /** Text for operators' logs. A client sees it only for invalid arguments. */
  readonly message: string;
  /** HTTP status that the worker asserts, if any. */
  readonly status?: number | undefined;
  readonly param?: string | undefined;
  /** Set if the worker's own code chose it. `message` is then meant for the client, too. */
  readonly code?: string | undefined;
  /** Time after which a retry makes sense, if the worker knows it. */
  readonly retryAfterMs?: number | undefined;
  /** Limit that the request exceeded. */
  readonly limit?: LimitName | undefined;
}

interface WorkerErrorOptions {
  /** HTTP status that the worker asserts. It is used only if the class itself says little: see `workerError`. */
  readonly status?: number | undefined;
  readonly param?: string | undefined;
  /** Time after which a retry makes sense, if the worker knows it. @default the value of the code */
  readonly retryAfterMs?: number | undefined;
  readonly limit?: LimitName | undefined;
}

/**
 * Returns a failure of class `kind`. `diagnostics` stays in `cause`, only for logs, unless the class is the client's
 * own mistake.
 *
 * An asserted status counts for two sorts of classes. A client's mistake keeps its text and takes any status from 400
 * to 499, with 422 as 400. A class that says nothing (`Internal`, `Unknown`) becomes the class that the status stands
 * for, with the text of that class; a number that stands for no class is an internal error. All other classes say more
 * than a number. The exception is a full worker that says 429: another worker may be tried, and the client still gets
 * 429.
 */
export function workerError(
  kind: WorkerErrorKind,
  diagnostics?: unknown,
  options: WorkerErrorOptions = {},
): ServeError {
  const row = rowOf(kind);
  const { param, retryAfterMs, limit } = options;
  const status = options.status === 422 ? 400 : options.status;
  const isMistake = isClientStatus(status);
  if (row.showsMessage) {
    const message = diagnostics === undefined ? row.message : reasonOf(diagnostics);
    const shown = isMistake ? status : undefined;
    const meant = saysTooLong(message) ? TOO_LONG : row;
    return failure(meant, kind, message, { cause: diagnostics, param, status: shown, retryAfterMs, limit });
  }
  if (kind === 'WorkerOverloaded' && status === LIMITED_STATUS) {
    const { message } = rowOf('RateLimited');
    return failure(rowOf('RateLimited'), kind, message, { cause: diagnostics, status, retryAfterMs });
  }
  if (!saysNothing(kind) || status === undefined) {
    const isOwn = isMistake && status !== undefined && kindOfStatus(status) === kind; // `kind` came from this status
    const shown = isOwn ? status : undefined;
    return failure(row, kind, row.message, { cause: diagnostics, param, status: shown, retryAfterMs });
  }
  const asserted = kindOfStatus(status) ?? (isMistake ? 'InvalidRequest' : kind);
  const meant = rowOf(asserted);
  const shown = isMistake ? status : undefined;
  return failure(meant, asserted, meant.message, { cause: diagnostics, param, status: shown, retryAfterMs });
}

/** Refusal of a prompt that is longer than the context. Clients that compact conversations look for its code. */
const TOO_LONG = { ...rowOf('InvalidArgument'), code: 'context_length_exceeded' } as const satisfies KindRow;

/** Codes of servers that limit their callers, and of servers that are full. */
const LIMITED_STATUS = 429;

function failure(row: KindRow, worker: WorkerErrorKind, message: string, options: ServeErrorOptions): ServeError {
  return new ServeError(row.code, message, { ...options, worker });
}

/** Returns the wire form of any failure inside a worker. */
export function toWire(thrown: unknown): WireError {
  if (!(thrown instanceof ServeError)) return { kind: 'Unknown', message: reasonOf(thrown) };
  const kind = thrown.worker ?? kindOfCode(thrown.code);
  const { assertedStatus: status, param, retryAfterMs } = thrown;
  const later = {
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(thrown.limit === undefined ? {} : { limit: thrown.limit }),
  };
  if (isRaised(thrown)) return { kind, message: thrown.message, status, param, code: thrown.code, ...later };
  // A message that the client may read travels as it is. Otherwise the wire carries the text for operators.
  const isShown = rowOf(kind).showsMessage === true || thrown.cause === undefined;
  const message = isShown ? thrown.message : reasonOf(thrown.cause);
  return { kind, message, status, param, ...later };
}

/**
 * Whether a worker's own code chose code and message, for the client. Any other failure has a class, or no code of its
 * own.
 */
function isRaised({ worker, code, cause }: ServeError): boolean {
  return worker === undefined && (code !== 'internal_error' || cause === undefined);
}

function raised(code: ErrorCode, { kind, message, status, param, retryAfterMs, limit }: WireError): ServeError {
  return new ServeError(code, message, {
    status,
    param,
    retryAfterMs,
    limit,
    ...(isWorkerErrorKind(kind) && { worker: kind }),
  });
}

/**
 * Returns the failure for a record from the wire. Unknown class names read as `Unknown`. A message that is JSON is
 * parsed: its text becomes the message. Its number becomes the status and says more than the class, unless the class is
 * an overload.
 */
export function fromWire(wire: WireError): ServeError {
  const { code, param, retryAfterMs, limit } = wire;
  if (code !== undefined && isErrorCode(code)) return raised(code, wire);
  const kind = isWorkerErrorKind(wire.kind) ? wire.kind : 'Unknown';
  const wrapped = openMessage(wire.message);
  if (wrapped === undefined)
    return workerError(kind, wire.message, { status: wire.status, param, retryAfterMs, limit });
  const isMistake = rowOf(kind).showsMessage === true;
  // If the packed number blames the worker itself, the mistake is not the client's.
  const meant = isMistake && wrapped.status !== undefined && !isClientStatus(wrapped.status) ? 'Internal' : kind;
  const text = isMistake ? (wrapped.text ?? rowOf(kind).message) : wire.message;
  return workerError(meant, text, { status: wrapped.status ?? wire.status, param, retryAfterMs });
}

/**
 * Reads what a worker packed into its message as `{"message": string?, "code": number?}`. Returns undefined if the
 * message is not a JSON object.
 */
function openMessage(message: string): { readonly text?: string; readonly status?: number } | undefined {
  if (!message.startsWith('{')) return undefined;
  try {
    const { message: text, code } = JSON.parse(message) as { readonly message?: unknown; readonly code?: unknown };
    return {
      ...(typeof text === 'string' && text !== '' ? { text } : {}),
      ...(Number.isInteger(code) ? { status: code as number } : {}),
    };
  } catch {
    return undefined;
  }
}

/** Whether the request may move to another worker after this failure. */
export function isMigratable(error: ServeError): boolean {
  return error.worker !== undefined && rowOf(error.worker).migrates === true;
}

/** Whether the failed worker gets no new request for a while. */
export function isInhibiting(error: ServeError): boolean {
  return error.worker !== undefined && rowOf(error.worker).inhibits === true;
}

/** Whether the request failed because its client cancelled it: here, or at an edge that asked the worker to end it. */
export function isClientCancel({ code, worker }: ServeError): boolean {
  return code === 'client_closed_request' && (worker === undefined || worker === 'CancelledByClient');
}
