import type { GenerationRequest } from '../../protocol/generation/index.ts';
import type { Span } from '../../telemetry/index.ts';

/** Names the queue class of a request: the header `x-dynamo-meta-policy-class` without its prefix. */
export const POLICY_CLASS = 'policy-class';

/** What travels beside a request to a worker: trace context, the client's request id, its metadata. */
export function headersOf({ trace, metadata }: GenerationRequest): Record<string, string> {
  const headers: Record<string, string> = { ...metadata };
  if (trace.traceparent !== undefined) headers.traceparent = trace.traceparent;
  if (trace.tracestate !== undefined) headers.tracestate = trace.tracestate;
  if (trace.requestId !== undefined) headers['x-request-id'] = trace.requestId;
  return headers;
}

/** What tells a worker whose part its work is; nothing where no spans are made: it goes on from the request's own headers. */
export function traceHeaders(span: Span | undefined): Readonly<Record<string, string>> {
  return span === undefined ? {} : { traceparent: span.context.traceparent };
}
