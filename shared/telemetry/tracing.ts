import { type SpanContext, TraceFlags } from '@opentelemetry/api';
import { type Clock, type Random, systemRandom } from '../clock/index.ts';
import { toServeError } from '../errors/index.ts';
import type { Logger } from './log/logger.ts';

/** The W3C headers as a host reads them; several `tracestate` headers belong together. */
interface TraceHeaders {
  readonly traceparent?: string | readonly string[] | undefined;
  readonly tracestate?: string | readonly string[] | undefined;
}

/** Our span in a trace: what log lines name and what workers continue. An OpenTelemetry `SpanContext` with both headers. */
export interface TraceContext extends SpanContext {
  /** The caller's span, when the trace is not ours. */
  readonly parentSpanId: string | undefined;
  /** Header for whoever we call. */
  readonly traceparent: string;
  /** Header for whoever we call: the caller's, at most 512 characters of it. */
  readonly tracestate: string | undefined;
}

// Version ff is forbidden; a version after 00 may append fields, which we do not pass on.
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const VERSION = '00';
const TRACESTATE_LENGTH_MAX = 512;

/**
 * Continues the caller's trace with a span of our own. Without a usable `traceparent` a new trace starts and `tracestate` is
 * dropped (W3C Trace Context, 3.3).
 *
 * @param isSampled decides for new traces. @default all are, so that an engine which does record follows its own configuration
 */
export function continueTrace(
  headers: TraceHeaders,
  random: Random = systemRandom,
  isSampled: (traceId: string) => boolean = () => true,
): TraceContext {
  const caller = parseTraceparent(oneText(headers.traceparent));
  const spanId = newSpanId(random);
  if (caller === undefined) {
    const traceId = newTraceId(random);
    return contextOf({ traceId, spanId, traceFlags: isSampled(traceId) ? TraceFlags.SAMPLED : TraceFlags.NONE });
  }
  const span: SpanContext = { traceId: caller.traceId, spanId, traceFlags: caller.traceFlags };
  return contextOf(span, caller.spanId, wholeMembers(oneText(headers.tracestate)));
}

/** A span below `parent`, in the same trace. */
function childOf(parent: TraceContext, random: Random): TraceContext {
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

/** The `traceparent` header that names `span`. */
export function formatTraceparent(span: SpanContext): string {
  const isSampled = (span.traceFlags & TraceFlags.SAMPLED) !== 0; // the other bits are not ours to set
  return `${VERSION}-${span.traceId}-${span.spanId}-${isSampled ? '01' : '00'}`;
}

function contextOf(span: SpanContext, parentSpanId?: string, tracestate?: string): TraceContext {
  const { traceId, spanId, traceFlags } = span;
  return { traceId, spanId, traceFlags, parentSpanId, traceparent: formatTraceparent(span), tracestate };
}

/** A UUID without its dashes; its version digit keeps it from being all zero, as W3C demands. */
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

/** What is known of a span; names as operators see them. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

interface SpanOptions {
  /** @default 'internal' */
  readonly kind?: SpanKind;
  readonly attributes?: SpanAttributes;
  /** Spans that belong to this one without being above it: the attempt before a retry, the prefill of a decode. */
  readonly links?: readonly TraceContext[];
}

/** Whether the work was asked for from outside, is asked of somebody else, or stays here. */
type SpanKind = 'server' | 'client' | 'internal';

/** Hears of spans. Never throws and never waits. */
export interface SpanSink {
  begun?(span: Span): void;
  ended(span: Span): void;
}

/** What all spans of a process share. */
interface SpanDeps {
  readonly sink: SpanSink;
  /** Monotonic. */
  nowMs(): number;
  childOf(parent: TraceContext): TraceContext;
}

/**
 * One piece of work on a request's way. Begins when it is made and ends once; what is said of it after that is lost.
 */
export class Span {
  readonly name: string;
  readonly context: TraceContext;
  readonly kind: SpanKind;
  readonly links: readonly TraceContext[];
  /** Unix time. */
  readonly beganAtMs: number;
  readonly #deps: SpanDeps;
  readonly #startMs: number;
  readonly #epochMs: number;
  #attributes: SpanAttributes;
  #durationMs: number | undefined;
  #error: string | undefined;

  /** @param epochMs wall clock when the monotonic one was at 0: the same for all parts of a span, so that they fit together */
  constructor(deps: SpanDeps, name: string, context: TraceContext, epochMs: number, options: SpanOptions = {}) {
    this.#deps = deps;
    this.#epochMs = epochMs;
    this.name = name;
    this.context = context;
    this.kind = options.kind ?? 'internal';
    this.links = options.links ?? [];
    this.#attributes = options.attributes ?? {};
    this.#startMs = deps.nowMs();
    this.beganAtMs = epochMs + this.#startMs;
    deps.sink.begun?.(this);
  }

  get attributes(): SpanAttributes {
    return this.#attributes;
  }

  /** Undefined while it goes on. */
  get durationMs(): number | undefined {
    return this.#durationMs;
  }

  /** Why it failed; undefined when it did not. */
  get error(): string | undefined {
    return this.#error;
  }

  /** Begins a part of this span. */
  child(name: string, options?: SpanOptions): Span {
    return new Span(this.#deps, name, this.#deps.childOf(this.context), this.#epochMs, options);
  }

  set(attributes: SpanAttributes): void {
    this.#attributes = { ...this.#attributes, ...attributes };
  }

  /** @param error why it failed. Idempotent: the first end counts. */
  end(error?: string): void {
    if (this.#durationMs !== undefined) return;
    this.#durationMs = this.#deps.nowMs() - this.#startMs;
    this.#error = error;
    this.#deps.sink.ended(this);
  }
}

interface TracerOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Share of new traces that are sampled, 0 to 1; a trace that comes from outside keeps its caller's decision. @default 1 */
  readonly sampleRatio?: number;
  readonly sinks: readonly SpanSink[];
}

/** Begins the spans that come from outside; their parts come from them. A process without one has no spans at all. */
export class Tracer {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #deps: SpanDeps;
  readonly #isSampled: (traceId: string) => boolean;

  constructor({ clock, random, sampleRatio = 1, sinks }: TracerOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#isSampled = (traceId) => isInShare(traceId, sampleRatio);
    this.#deps = {
      sink: {
        begun: (span) => {
          for (const sink of sinks) sink.begun?.(span);
        },
        ended: (span) => {
          for (const sink of sinks) sink.ended(span);
        },
      },
      nowMs: () => clock.nowMs(),
      childOf: (parent) => childOf(parent, random),
    };
  }

  /** Begins a span in the trace that `headers` name, or in a new one. */
  begin(name: string, headers: TraceHeaders, options?: SpanOptions): Span {
    const context = continueTrace(headers, this.#random, this.#isSampled);
    return new Span(this.#deps, name, context, this.#clock.wallMs() - this.#clock.nowMs(), options);
  }
}

const SHARE_DIGITS = 13; // 52 bits: exact as a number; the last ones of an id are random in every scheme
const SHARES = 16 ** SHARE_DIGITS;

/** The same answer everywhere for one trace and ratio. */
function isInShare(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(-SHARE_DIGITS), 16) < ratio * SHARES;
}

/** Logs the start and end of every span (`DYN_LOGGING_SPAN_EVENTS`). */
export function logSpans(logger: Logger): SpanSink {
  return {
    begun: (span) => logger.info('SPAN_FIRST_ENTRY', fieldsOf(span)),
    ended: (span) =>
      logger.info('SPAN_CLOSED', {
        ...fieldsOf(span),
        'time.duration_us': Math.round((span.durationMs ?? 0) * 1000),
        ...(span.error === undefined ? {} : { error: span.error }),
      }),
  };
}

function fieldsOf({ name, context, attributes }: Span): Record<string, unknown> {
  const { traceId: trace_id, spanId: span_id, parentSpanId: parent_id } = context;
  return { span_name: name, trace_id, span_id, ...(parent_id === undefined ? {} : { parent_id }), ...attributes };
}

/** Does `work`, which may go on in a promise, as a part of `parent`; without one it is simply done. */
export function inSpan<T>(parent: Span | undefined, name: string, work: () => T): T {
  if (parent === undefined) return work();
  const span = parent.child(name);
  const endFailed = (thrown: unknown): void => span.end(toServeError(thrown).code);
  try {
    const result = work();
    if (result instanceof Promise) result.then(() => span.end(), endFailed);
    else span.end();
    return result;
  } catch (thrown) {
    endFailed(thrown);
    throw thrown;
  }
}
