import type { Clock } from '../../clock/index.ts';
import type { ServeError } from '../../errors/index.ts';
import {
  ForwardingSink,
  type GenerationRequest,
  type GenerationSink,
  type ServingWorkers,
  type TextDelta,
  type TextFinish,
  type Usage,
} from '../../protocol/index.ts';
import { ResponseAssembler } from '../answer/response-assembler.ts';
import type { PipelineObserver, RequestTimesRecord, TimedStage } from '../pipeline.ts';

interface RequestTimesOptions {
  readonly clock: Pick<Clock, 'nowMs'>;
  /** Observer of the pipeline, which gets every event, and the record at the end. */
  readonly observer: PipelineObserver;
  readonly request: GenerationRequest;
  /** Requests that are timed now, with this one. */
  readonly active: number;
  /** Signal that ends the request without an event for its sink. */
  readonly signal: AbortSignal;
  /** Called once, when the request is over. */
  readonly onOver: () => void;
}

type Step = 'template' | 'tokenize' | 'encode' | 'answer' | 'detokenize' | TimedStage;

/** Measures how long each step of one request takes (`--dyn-debug-perf`). A request without it is not measured. */
export class RequestTimes {
  /** Observer for the steps of this request. */
  readonly observer: PipelineObserver;
  readonly #options: RequestTimesOptions;
  readonly #startedMs: number;
  readonly #spentMs: Partial<Record<Step, number>> = {};
  #firstOutputMs: number | undefined;
  #tokens = 0;
  #isOver = false;

  constructor(options: RequestTimesOptions) {
    this.#options = options;
    const { observer, clock, signal } = options;
    this.#startedMs = clock.nowMs();
    this.observer = {
      ...observer,
      template: (ms) => this.#spend('template', ms, () => observer.template?.(ms)),
      tokenize: (ms) => this.#spend('tokenize', ms, () => observer.tokenize?.(ms)),
      stage: (stage, ms) => this.#spend(stage, ms, () => observer.stage?.(stage, ms)),
      detokenize: (ms, tokens) => {
        this.#tokens = tokens;
        this.#spend('detokenize', ms, () => observer.detokenize?.(ms, tokens));
      },
    };
    if (signal.aborted) this.#left();
    else signal.addEventListener('abort', this.#left, { once: true });
  }

  /** Returns a sink that measures `sink`, and ends the measurement with it. */
  listen(sink: GenerationSink): GenerationSink {
    return new TimedSink(sink, this);
  }

  /** Runs `write`, which encodes a part of the answer. */
  encode(write: () => void, isOutput: boolean): void {
    const { clock } = this.#options;
    const startMs = clock.nowMs();
    if (isOutput) this.#firstOutputMs ??= startMs - this.#startedMs;
    write();
    this.#add('encode', clock.nowMs() - startMs);
  }

  /** Runs `read`, which turns output of a worker into a part of the answer. What it encodes is not counted twice. */
  answer<T>(read: () => T): T {
    const { clock } = this.#options;
    const [startMs, encodedMs] = [clock.nowMs(), this.#spentMs.encode ?? 0];
    try {
      return read();
    } finally {
      this.#add('answer', clock.nowMs() - startMs - ((this.#spentMs.encode ?? 0) - encodedMs));
    }
  }

  over(outcome: RequestTimesRecord['outcome']): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { clock, request, active, observer, signal, onOver } = this.#options;
    signal.removeEventListener('abort', this.#left);
    onOver();
    const { template, tokenize, preprocess, route, transport_roundtrip, encode, answer, detokenize } = this.#spentMs;
    observer.timed?.({
      requestId: request.id,
      model: request.model,
      outcome,
      active,
      tokens: this.#tokens,
      templateMs: template,
      tokenizeMs: tokenize,
      preprocessMs: preprocess,
      routeMs: route,
      transportMs: transport_roundtrip,
      firstOutputMs: this.#firstOutputMs,
      detokenizeMs: detokenize,
      parseMs: answer && Math.max(0, answer - (detokenize ?? 0)), // the time of detokenization is an estimate
      encodeMs: encode,
      totalMs: clock.nowMs() - this.#startedMs,
    });
  }

  readonly #left = (): void => this.over('left');

  #spend(step: Step, ms: number, tell: () => void): void {
    this.#add(step, ms);
    tell();
  }

  #add(step: Step, ms: number): void {
    this.#spentMs[step] = (this.#spentMs[step] ?? 0) + ms;
  }
}

/** Measures the encoding of an answer. */
class TimedSink extends ForwardingSink {
  readonly #times: RequestTimes;

  constructor(sink: GenerationSink, times: RequestTimes) {
    super(sink);
    this.#times = times;
  }

  override text(choice: number, text: string, tokenCount: number): void {
    this.#times.encode(() => this.sink.text(choice, text, tokenCount), true);
  }

  override delta(delta: TextDelta): void {
    this.#times.encode(() => this.sink.delta(delta), true);
  }

  override reasoning(choice: number, text: string): void {
    this.#times.encode(() => this.sink.reasoning(choice, text), true);
  }

  override toolCall(choice: number, index: number, id: string, name: string): void {
    this.#times.encode(() => this.sink.toolCall(choice, index, id, name), true);
  }

  override toolArguments(choice: number, index: number, text: string): void {
    this.#times.encode(() => this.sink.toolArguments(choice, index, text), true);
  }

  override finish(finish: TextFinish): void {
    this.#times.encode(() => this.sink.finish(finish), true);
  }

  override body(body: unknown): void {
    this.#times.encode(() => this.sink.body(body), true);
  }

  override routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.#times.encode(() => this.sink.routed(workers, tokenIds), false);
    this.#times.over('end');
  }

  override end(usage: Usage, finished: boolean): void {
    this.#times.encode(() => this.sink.end(usage, finished), false);
    this.#times.over('end');
  }

  override fail(error: ServeError): void {
    this.#times.encode(() => this.sink.fail(error), false);
    this.#times.over('failed');
  }
}

/** Assembles an answer, and measures how long that takes. */
export class TimedResponse extends ResponseAssembler {
  readonly #times: RequestTimes;

  constructor(times: RequestTimes, ...parts: ConstructorParameters<typeof ResponseAssembler>) {
    super(...parts);
    this.#times = times;
  }

  override tokens(...output: Parameters<ResponseAssembler['tokens']>): void {
    this.#times.answer(() => super.tokens(...output));
  }

  override output(...output: Parameters<ResponseAssembler['output']>): ServeError | undefined {
    return this.#times.answer(() => super.output(...output));
  }

  override finishAtLength(): void {
    this.#times.answer(() => super.finishAtLength());
  }

  override end(): void {
    this.#times.answer(() => super.end());
  }
}
