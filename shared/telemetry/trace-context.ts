import { type SpanContext, TraceFlags } from '@opentelemetry/api';
import { type Random, systemRandom } from '../clock/index.ts';

/** The W3C headers as a host reads them; several `tracestate` headers belong together. */
export interface TraceHeaders {
  readonly traceparent?: string | readonly string[] | undefined;
  readonly tracestate?: string | readonly string[] | undefined;
}

/**
 * Our span in a trace: what log lines name and what workers continue. An OpenTelemetry `SpanContext` with both headers.
 */
export interface TraceContext extends SpanContext {
  /** The caller's span, when the trace is not ours. */
  readonly parentSpanId: string | undefined;
  /** Header for calls to other processes. */
  readonly traceparent: string;
  /** Header for calls to other processes: the caller's, at most 512 characters of it. */
  readonly tracestate: string | undefined;
}

// Version ff is forbidden; a version after 00 may append fields, which we do not pass on.
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const VERSION = '00';
const TRACESTATE_LENGTH_MAX = 512;

/**
 * Continues the caller's trace with a span of our own. Without a usable `traceparent` a new trace starts and
 * `tracestate` is dropped (W3C Trace Context, 3.3).
 *
 * @param isSampled decides by the id of the trace and the caller's decision, which is undefined for a new trace.
 * @default as the caller decided, and every new trace, so that an engine that records follows its own configuration
 */
export function continueTrace(
  headers: TraceHeaders,
  random: Random = systemRandom,
  isSampled: (traceId: string, byCaller: boolean | undefined) => boolean = (_traceId, byCaller = true) => byCaller,
): TraceContext {
  const caller = parseTraceparent(oneText(headers.traceparent));
  const traceId = caller?.traceId ?? newTraceId(random);
  const byCaller = caller && (caller.traceFlags & TraceFlags.SAMPLED) !== 0;
  const traceFlags = isSampled(traceId, byCaller) ? TraceFlags.SAMPLED : TraceFlags.NONE;
  const span: SpanContext = { traceId, spanId: newSpanId(random), traceFlags };
  if (caller === undefined) return contextOf(span);
  return contextOf(span, caller.spanId, wholeMembers(oneText(headers.tracestate)));
}

/** Returns a span below `parent`, in the same trace. */
export function childOf(parent: TraceContext, random: Random): TraceContext {
  const { traceId, traceFlags, spanId: parentSpanId, tracestate } = parent;
  return contextOf({ traceId, spanId: newSpanId(random), traceFlags }, parentSpanId, tracestate);
}

/** The caller's span, or undefined when the header is absent or not legal. */
export function parseTraceparent(header: string | undefined): SpanContext | undefined {
  const match = header === undefined ? null : TRACEPARENT.exec(header.trim());
  if (match === null) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', rest] = match;
  if (version === VERSION && rest !== undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

/** Returns the `traceparent` header that names `span`. */
export function formatTraceparent(span: SpanContext): string {
  const isSampled = (span.traceFlags & TraceFlags.SAMPLED) !== 0; // the other bits are not ours to set
  return `${VERSION}-${span.traceId}-${span.spanId}-${isSampled ? '01' : '00'}`;
}

function contextOf(span: SpanContext, parentSpanId?: string, tracestate?: string): TraceContext {
  const { traceId, spanId, traceFlags } = span;
  return { traceId, spanId, traceFlags, parentSpanId, traceparent: formatTraceparent(span), tracestate };
}

/** Returns a UUID without its dashes; its version digit keeps it from being all zero, as W3C demands. */
function newTraceId(random: Random): string {
  const uuid = random.uuid();
  return uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18) + uuid.slice(19, 23) + uuid.slice(24);
}

/** The second half of a UUID, whose variant bits keep it from being all zero. */
function newSpanId(random: Random): string {
  const uuid = random.uuid();
  return uuid.slice(19, 23) + uuid.slice(24);
}

/** As many members from the front as fit into what every participant must pass on (W3C Trace Context, 3.3.1.5). */
function wholeMembers(tracestate: string | undefined): string | undefined {
  if (tracestate === undefined || tracestate.length <= TRACESTATE_LENGTH_MAX) return tracestate || undefined;
  const comma = tracestate.lastIndexOf(',', TRACESTATE_LENGTH_MAX);
  return comma <= 0 ? undefined : tracestate.slice(0, comma);
}

function oneText(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === 'string' || header === undefined ? header : header.join(',');
}
