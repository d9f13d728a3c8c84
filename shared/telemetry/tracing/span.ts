import type { TraceContext } from '../trace-context.ts';

/** What is known of a span; names as operators see them. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface SpanOptions {
  /** @default 'internal' */
  readonly kind?: SpanKind;
  readonly attributes?: SpanAttributes;
  /** Spans that belong to this one without being above it: the attempt before a retry, the prefill of a decode. */
  readonly links?: readonly TraceContext[];
}

/** Whether the work was asked for from outside, is asked of somebody else, or stays here. */
export type SpanKind = 'server' | 'client' | 'internal';

/** Hears of spans. Never throws and never waits. */
export interface SpanSink {
  begun?(span: Span): void;
  ended(span: Span): void;
}

/** What all spans of a process share. */
export interface SpanDeps {
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
