import type { TraceContext } from '../trace-context.ts';
import type { Logger } from './logger.ts';

/** What names a request in every one of its log lines. */
export interface RequestIdentity {
  /** The server's id of the request. */
  readonly requestId: string;
  /** `x-request-id` as the client sent it. */
  readonly clientRequestId?: string | undefined;
  readonly trace?: TraceContext | undefined;
}

/** `logger` with `request_id`, `x_request_id`, `trace_id` and `span_id` on each line (http-api.md, section 2.6). */
export function createRequestLogger(logger: Logger, identity: RequestIdentity): Logger {
  return logger.with({
    request_id: identity.requestId,
    x_request_id: identity.clientRequestId,
    trace_id: identity.trace?.traceId,
    span_id: identity.trace?.spanId,
  });
}
