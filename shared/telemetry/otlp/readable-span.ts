import { type HrTime, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { TraceContext } from '../trace-context.ts';
import type { Span } from '../tracing/span.ts';

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;
const SCOPE = { name: 'stator' };

/** A finished span as exporters read it. */
export function toReadableSpan(span: Span, resource: Resource): ReadableSpan {
  const { context, durationMs = 0, error } = span;
  const { traceId, traceFlags, parentSpanId } = context;
  return {
    name: span.name,
    kind: KINDS[span.kind],
    spanContext: () => spanContextOf(context),
    ...(parentSpanId === undefined ? {} : { parentSpanContext: { traceId, spanId: parentSpanId, traceFlags } }),
    startTime: hrTime(span.beganAtMs),
    endTime: hrTime(span.beganAtMs + durationMs),
    duration: hrTime(durationMs),
    ended: true,
    status: error === undefined ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
    attributes: span.attributes,
    links: span.links.map((link) => ({ context: spanContextOf(link) })),
    events: [],
    resource,
    instrumentationScope: SCOPE,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function spanContextOf({ traceId, spanId, traceFlags }: TraceContext) {
  return { traceId, spanId, traceFlags };
}

/** Seconds and nanoseconds. */
export function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
