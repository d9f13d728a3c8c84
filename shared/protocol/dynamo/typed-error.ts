import { fromWire, type ServeError, type WorkerErrorKind } from '../../errors/index.ts';
import { asRecord, isRecord, type UnknownRecord } from '../../records/index.ts';

/** Number of errors of a chain that are read. */
const CHAIN_MAX = 8;
/** Limit of the text of an error, which goes to logs. */
const TEXT_LENGTH_MAX = 4096;

/** Classes by the reasons of errors, for reasons that say more than the class beside them. */
const BY_REASON: ReadonlyMap<unknown, WorkerErrorKind> = new Map([
  ['request.invalid_argument', 'InvalidArgument'],
  ['request.invalid', 'InvalidRequest'],
  ['request.unauthenticated', 'Unauthenticated'],
  ['request.permission_denied', 'PermissionDenied'],
  ['request.not_found', 'NotFound'],
  ['request.conflict', 'Conflict'],
  ['request.payload_too_large', 'PayloadTooLarge'],
  ['request.unsupported_media', 'UnsupportedMedia'],
  ['request.rate_limited', 'RateLimited'],
  ['request.cancelled', 'Cancelled'],
  ['request.deadline_exceeded', 'DeadlineExceeded'],
  ['transport.cannot_connect', 'CannotConnect'],
  ['transport.disconnected', 'Disconnected'],
  ['transport.connection_timeout', 'ConnectionTimeout'],
  ['capacity.exhausted', 'CapacityExhausted'],
  ['capacity.pool_exhausted', 'ResourceExhausted'],
  ['capacity.worker_overloaded', 'WorkerOverloaded'],
  ['backend.invalid_argument', 'InvalidArgument'],
  ['backend.unavailable', 'Unavailable'],
  ['backend.worker_unavailable', 'WorkerUnavailable'],
  ['backend.cannot_connect', 'CannotConnect'],
  ['backend.disconnected', 'Disconnected'],
  ['backend.connection_timeout', 'ConnectionTimeout'],
  ['backend.response_timeout', 'ResponseTimeout'],
  ['backend.engine_shutdown', 'EngineShutdown'],
  ['backend.stream_incomplete', 'StreamIncomplete'],
  ['backend.cancelled', 'Cancelled'],
  ['backend.protocol', 'BackendProtocol'],
  ['runtime.not_implemented', 'NotImplemented'],
] as const);

/** Classes of errors by their names on the wire. `Unknown` and `Internal` say nothing, so they are not among them. */
const BY_NAME: ReadonlyMap<unknown, WorkerErrorKind> = new Map(
  [...BY_REASON.values()].map((kind) => [kind, kind] as const),
);

/**
 * Returns the failure that a worker of Dynamo's reported: the prologue of a refused stream, or an item of a stream.
 *
 *     { error: 'text', typed_error: { error_type: 'InvalidArgument', message: 'text' } }       prologue
 *     { event: 'error', comment: ['text'], error: { error_type: { Backend: 'Unknown' }, ... } } item
 *
 * The class is the first in the chain of causes that says something. A client reads the text only if the class is its
 * own mistake: then the public text of the worker, if there is one.
 */
export function readTypedError(reported: unknown): ServeError {
  const record = asRecord(reported) ?? {};
  const typed = [record.typed_error, record.error].find(isRecord);
  if (typed === undefined) return fromWire({ kind: 'Unknown', message: textOf(record) });
  const chain = chainOf(typed);
  const telling = chain.find((error) => kindOf(error) !== undefined) ?? typed;
  const kind = kindOf(telling) ?? 'Unknown';
  const texts = chain.map(messageOf).filter((text) => text !== '');
  const own = publicText(telling) ?? messageOf(telling);
  const isForClient = MISTAKES.has(kind) && own !== '';
  return fromWire({ kind, message: cut(isForClient ? own : texts.join(': ') || textOf(record)) });
}

/** Classes whose text a client reads. */
const MISTAKES: ReadonlySet<WorkerErrorKind> = new Set(['InvalidArgument', 'InvalidRequest']);

/** Returns the errors from the outermost to the first cause. */
function chainOf(outermost: UnknownRecord): readonly UnknownRecord[] {
  const chain: UnknownRecord[] = [];
  let error: UnknownRecord | undefined = outermost;
  while (error !== undefined && chain.length < CHAIN_MAX) {
    chain.push(error);
    error = asRecord(error.caused_by);
  }
  return chain;
}

/** Returns the class of one error; undefined if it says nothing, or has an unknown name. */
function kindOf({ reason, error_type: type, class: canonical }: UnknownRecord): WorkerErrorKind | undefined {
  return BY_REASON.get(reason) ?? BY_NAME.get(nameOf(type)) ?? BY_NAME.get(nameOf(canonical));
}

/** Returns the name of a class. Those of engines are in a record of their own: `{ Backend: 'EngineShutdown' }`. */
function nameOf(type: unknown): unknown {
  return isRecord(type) ? type.Backend : type;
}

function publicText({ public: details }: UnknownRecord): string | undefined {
  const text = asRecord(details)?.message;
  return typeof text === 'string' && text !== '' ? text : undefined;
}

function messageOf({ message, diagnostic }: UnknownRecord): string {
  return [message, diagnostic].find((text): text is string => typeof text === 'string' && text !== '') ?? '';
}

function textOf({ error, comment }: UnknownRecord): string {
  if (typeof error === 'string') return cut(error);
  const texts = Array.isArray(comment) ? comment.filter((text) => typeof text === 'string') : [];
  return texts.length === 0 ? 'the worker failed without a reason' : cut(texts.join(', '));
}

function cut(text: string): string {
  return text.slice(0, TEXT_LENGTH_MAX);
}
