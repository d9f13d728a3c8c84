import type { Clock, Random } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import { isClientCancel, toServeError } from '../errors/index.ts';
import type { Logger } from './log/types.ts';
import { childOf, continueTrace, type TraceContext, type TraceHeaders } from './trace-context.ts';

/** Facts of a span, with the names that operators see. */
export type SpanAttributes = Readonly<Record<string, SpanValue | undefined>>;

export type SpanValue = string | number | boolean | readonly string[];

/**
 * Most characters of one text, and texts of one list: clients write some of them, and many spans may wait for a
 * collector.
 */
const TEXT_LENGTH_MAX = 1024;
const TEXTS_MAX = 32;

interface SpanOptions {
  /** @default 'internal' */
  readonly kind?: SpanKind;
  readonly attributes?: SpanAttributes;
  /** Spans that belong to this one without being above it: the attempt before a retry, the prefill of a decode. */
  readonly links?: readonly TraceContext[];
}

/** Kind of work: asked for by another process, asked of another process, or neither. */
type SpanKind = 'server' | 'client' | 'internal';

/** Hears of spans. Never throws and never waits. */
export interface SpanSink {
  begun?(span: Span): void;
  ended(span: Span): void;
}

/** Parts that all spans of a process share. */
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
  /** May become known while it goes on. */
  name: string;
  readonly context: TraceContext;
  readonly kind: SpanKind;
  readonly links: readonly TraceContext[];
  /** Unix time. */
  readonly beganAtMs: number;
  readonly #deps: SpanDeps;
  readonly #startMs: number;
  readonly #epochMs: number;
  readonly #attributes: Record<string, SpanValue> = {};
  #durationMs: number | undefined;
  #error: string | undefined;

  /**
   * @param epochMs wall clock when the monotonic one was at 0: the same for all parts of a span, so that they fit
   * together
   */
  constructor(deps: SpanDeps, name: string, context: TraceContext, epochMs: number, options: SpanOptions = {}) {
    this.#deps = deps;
    this.#epochMs = epochMs;
    this.name = name;
    this.context = context;
    this.kind = options.kind ?? 'internal';
    this.links = options.links ?? [];
    if (options.attributes !== undefined) this.#note(options.attributes);
    this.#startMs = deps.nowMs();
    this.beganAtMs = epochMs + this.#startMs;
    deps.sink.begun?.(this);
  }

  /** Without those that are undefined. */
  get attributes(): Readonly<Record<string, SpanValue>> {
    return this.#attributes;
  }

  /** Undefined while it goes on. */
  get durationMs(): number | undefined {
    return this.#durationMs;
  }

  /** `error.type`: why it failed, as a word of a closed list; undefined when it did not. */
  get error(): string | undefined {
    return this.#error;
  }

  /** Begins a part of this span. */
  child(name: string, options?: SpanOptions): Span {
    return new Span(this.#deps, name, this.#deps.childOf(this.context), this.#epochMs, options);
  }

  /** Sets attributes, except undefined ones. */
  set(attributes: SpanAttributes): void {
    if (this.#durationMs === undefined) this.#note(attributes);
  }

  #note(attributes: SpanAttributes): void {
    for (const name in attributes) {
      const value = attributes[name];
      if (value !== undefined && value !== null) this.#attributes[name] = bounded(value);
    }
  }

  /** @param error why it failed; work that its client has called off has not. Idempotent: the first end counts. */
  end(error?: string): void {
    if (this.#durationMs !== undefined) return;
    if (error !== undefined) this.#note({ 'error.type': error });
    this.#durationMs = this.#deps.nowMs() - this.#startMs;
    this.#error = error;
    this.#deps.sink.ended(this);
  }
}

function bounded(value: SpanValue): SpanValue {
  if (typeof value === 'string') return clipped(value);
  return Array.isArray(value) ? value.slice(0, TEXTS_MAX).map(clipped) : value;
}

function clipped(text: string): string {
  if (text.length <= TEXT_LENGTH_MAX) return text;
  return text.slice(0, TEXT_LENGTH_MAX).replace(/[\ud800-\udbff]$/, ''); // no half characters
}

interface TracerOptions {
  readonly clock: Clock;
  readonly random: Random;
  /**
   * With `parentbased_` a trace that comes from outside keeps its caller's decision. @default
   * 'parentbased_traceidratio'
   */
  readonly sampler?: FleetSettings['otelTracesSampler'];
  /** Share of traces that are sampled if a ratio decides, 0 to 1. @default 1 */
  readonly sampleRatio?: number;
  readonly sinks: readonly SpanSink[];
}

/** Begins the spans that come from outside; their parts come from them. A process without one has no spans at all. */
export class Tracer {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #deps: SpanDeps;
  readonly #isSampled: (traceId: string, byCaller: boolean | undefined) => boolean;

  constructor({ clock, random, sampler = 'parentbased_traceidratio', sampleRatio = 1, sinks }: TracerOptions) {
    this.#clock = clock;
    this.#random = random;
    const asksCaller = sampler.startsWith('parentbased_');
    const ratio = sampler.endsWith('always_off') ? 0 : sampler.endsWith('always_on') ? 1 : sampleRatio;
    this.#isSampled = (traceId, byCaller) => (asksCaller ? byCaller : undefined) ?? isInShare(traceId, ratio);
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

/** Decides from the id of the trace, so that every process gives the same answer for one trace and ratio. */
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
      }),
  };
}

function fieldsOf({ name, context, attributes }: Span): Record<string, unknown> {
  const { traceId: trace_id, spanId: span_id, parentSpanId: parent_id } = context;
  return { span_name: name, trace_id, span_id, ...(parent_id === undefined ? {} : { parent_id }), ...attributes };
}

/** Does `work`, which may go on in a promise, as a part of `parent`; without one it is simply done. */
export function inSpan<T>(parent: Span | undefined, name: string, work: (span?: Span) => T): T {
  return parent === undefined ? work() : within(parent.child(name), work);
}

/** Does `work`, which may go on in a promise, and ends `span` with it. */
export function within<T>(span: Span, work: (span: Span) => T): T {
  const endFailed = (thrown: unknown): void => {
    const error = toServeError(thrown);
    span.end(isClientCancel(error) ? undefined : error.code);
  };
  try {
    const result = work(span);
    if (result instanceof Promise) result.then(() => span.end(), endFailed);
    else span.end();
    return result;
  } catch (thrown) {
    endFailed(thrown);
    throw thrown;
  }
}
