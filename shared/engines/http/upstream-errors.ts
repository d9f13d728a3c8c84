import type { IncomingHttpHeaders } from 'node:http';
import { type ServeError, type WorkerErrorKind, workerError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';

/** Error of an OpenAI-compatible server, as far as it said one. */
export interface UpstreamFault {
  readonly message: string;
  readonly param: string | undefined;
  /** `error.type` and `error.code` in one text, to look for words in. */
  readonly labels: string;
  /** HTTP status named by the body, for errors inside a stream. */
  readonly status: number | undefined;
}

/** Reads an error body: `{error: {message, ...}}`, the flat `{message, ...}` and `{detail}` of various servers, or plain text. */
export function readFault(body: unknown, fallback: string): UpstreamFault {
  const record = isRecord(body) ? body : {};
  const error = isRecord(record.error) ? record.error : record;
  const message = [error.message, record.error, record.detail, body].find(
    (text) => typeof text === 'string' && text !== '',
  );
  const code = Number(error.code);
  return {
    message: typeof message === 'string' ? message.slice(0, 2000) : fallback,
    param: typeof error.param === 'string' ? error.param : undefined,
    labels: `${error.type} ${error.code}`,
    status: Number.isInteger(code) && code >= 400 && code < 600 ? code : undefined,
  };
}

const KIND_OF_STATUS: Readonly<Record<number, WorkerErrorKind>> = {
  // The engine refuses our own key or does not know our route: the operator's mistake, never the client's.
  401: 'BackendProtocol',
  403: 'BackendProtocol',
  404: 'NotFound',
  405: 'BackendProtocol',
  408: 'ResponseTimeout',
  413: 'PayloadTooLarge',
  415: 'UnsupportedMedia',
  501: 'NotImplemented',
  502: 'WorkerUnavailable',
  503: 'WorkerUnavailable',
  504: 'WorkerUnavailable',
  529: 'WorkerOverloaded',
};

/**
 * The failure that an error status of the engine stands for.
 * @param retryAfterMs when the engine wants to be asked again, as far as it says
 */
export function faultOfStatus(status: number, fault: UpstreamFault, retryAfterMs?: number): ServeError {
  const diagnostics = `engine answered ${status}: ${fault.message}`;
  if (status === 429) {
    // A hosted service limits the caller; a server of one's own says that it is full, and another worker may not be.
    const isLimit = /rate_limit|quota|billing/.test(fault.labels);
    return workerError(isLimit ? 'RateLimited' : 'WorkerOverloaded', diagnostics, { status, retryAfterMs });
  }
  const kind = KIND_OF_STATUS[status];
  if (kind !== undefined) return workerError(kind, diagnostics, { retryAfterMs });
  if (status >= 400 && status < 500) {
    return workerError('InvalidArgument', fault.message, { status, param: fault.param });
  }
  return workerError('Unknown', diagnostics);
}

/** Longest wait that is passed on: what asks for more is told this. */
const RETRY_AFTER_MS_MAX = 24 * 3_600_000;

/**
 * `Retry-After` of an answer in milliseconds, of which `retry-after-ms` says more exactly the same; undefined where neither
 * is there or can be read.
 * @param wallMs now, for times that are dates
 */
export function retryAfterOf(headers: IncomingHttpHeaders, wallMs: number): number | undefined {
  const { 'retry-after-ms': exact, 'retry-after': seconds } = headers;
  if (typeof exact === 'string' && NUMBER.test(exact)) return Math.min(Number(exact), RETRY_AFTER_MS_MAX);
  if (seconds === undefined) return undefined;
  const waitMs = NUMBER.test(seconds) ? Number(seconds) * 1000 : Date.parse(seconds) - wallMs;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), RETRY_AFTER_MS_MAX);
}

const NUMBER = /^\d+(?:\.\d+)?$/;

/** The failure that an error object inside a stream stands for. */
export function faultInStream(body: unknown): ServeError {
  const fault = readFault(body, 'no message');
  if (fault.status !== undefined) return faultOfStatus(fault.status, fault);
  if (/invalid_request|BadRequest/i.test(fault.labels)) {
    return workerError('InvalidArgument', fault.message, { param: fault.param });
  }
  return workerError('Unknown', `engine failed in its stream: ${fault.message}`);
}
