import type { Clock, Random } from '../../clock/index.ts';
import { childOf, continueTrace, type TraceHeaders } from '../trace-context.ts';
import { Span, type SpanDeps, type SpanOptions, type SpanSink } from './span.ts';

export interface TracerOptions {
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
