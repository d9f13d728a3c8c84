import { reasonOf, ServeError, type ServeErrorOptions } from './serve-error.ts';
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

/** A failure as it travels in PROLOGUE and ERROR frames. */
export interface WireError {
  readonly kind: WorkerErrorKind;
  /** For operators' logs. Shown to a client only for invalid arguments. */
  readonly message: string;
  /** HTTP status that the worker asserts, if it does. */
  readonly status?: number | undefined;
  readonly param?: string | undefined;
}

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
  if (!saysNothing(kind) || status === undefined) {
    const isOwn = isMistake && status !== undefined && kindOfStatus(status) === kind; // read from it before
    return failure(row, kind, row.message, { cause: diagnostics, param, status: isOwn ? status : undefined });
  }
  const asserted = kindOfStatus(status) ?? (isMistake ? 'InvalidRequest' : kind);
  const meant = rowOf(asserted);
  return failure(meant, asserted, meant.message, { cause: diagnostics, param, status: isMistake ? status : undefined });
}

function failure(row: KindRow, worker: WorkerErrorKind, message: string, options: ServeErrorOptions): ServeError {
  return new ServeError(row.code, message, { ...options, worker });
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

/**
 * The failure that a wire record stands for. Unknown class names read as `Unknown`. A message that is JSON is opened: its
 * text is the message, its number a status that says more than the class, unless the class is an overload.
 */
export function fromWire(wire: WireError): ServeError {
  const kind = isWorkerErrorKind(wire.kind) ? wire.kind : 'Unknown';
  const { param } = wire;
  const wrapped = openMessage(wire.message);
  if (wrapped === undefined) return workerError(kind, wire.message, { status: wire.status, param });
  const isMistake = rowOf(kind).showsMessage === true;
  // A mistake that the packed number lays at the worker's own door is none of the client's.
  const meant = isMistake && wrapped.status !== undefined && !isClientStatus(wrapped.status) ? 'Internal' : kind;
  const text = isMistake ? (wrapped.text ?? rowOf(kind).message) : wire.message;
  return workerError(meant, text, { status: wrapped.status ?? wire.status, param });
}

/** What a worker packed into its message as `{"message": string?, "code": number?}`; undefined when it is no JSON object. */
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

/** Whether the request may be sent to another worker after this failure. */
export function isMigratable(error: ServeError): boolean {
  return error.worker !== undefined && rowOf(error.worker).migrates === true;
}

/** Whether the worker that failed so should get no new request for a while. */
export function isInhibiting(error: ServeError): boolean {
  return error.worker !== undefined && rowOf(error.worker).inhibits === true;
}

/** Whether the request failed because its client asked for its end: here, or at an edge that had the worker end it. */
export function isClientCancel({ code, worker }: ServeError): boolean {
  return code === 'client_closed_request' && (worker === undefined || worker === 'CancelledByClient');
}
