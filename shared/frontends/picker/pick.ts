import { ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { GenerateOptions, Pipeline, Placement } from '../../pipeline/index.ts';
import type { GenerationRequest, GenerationSink } from '../../protocol/index.ts';
import type { HttpAppDeps } from '../http/deps.ts';
import type { TrackedRequest } from '../inference/deps.ts';
import { AnswerTail } from './answer-tail.ts';
import type { Decision } from './answers.ts';
import type { PickerDeps } from './deps.ts';
import { type HeldBody, type ImmediateAnswer, PickExchange } from './pick-exchange.ts';
import type { RequestHead } from './request-head.ts';
import { isSentAgain, nameOfSent } from './sent-requests.ts';

/** Longest time that a timer can have, in milliseconds. */
const NEVER_MS = 2_147_483_647;
/** Status from which an answer is a failure. */
const FAILURES = 400;

interface PickParts {
  readonly head: RequestHead;
  readonly body: HeldBody;
  /** Returns whether the request may go to an endpoint. */
  readonly isAllowed: (endpoint: string) => boolean;
  /** Receives the endpoints, and then no answer. */
  onDecision(decision: Decision): void;
  /** Receives the answer that Envoy gives in place of a worker, and then no decision. */
  onAnswer(answer: ImmediateAnswer): void;
}

/**
 * Picks the endpoint of one request that a model answers, and follows it to its end. The app reads the request as if
 * this process answered it, so keys, limits and errors are the same. Its pipeline reserves workers and sends nothing.
 */
export class Pick {
  readonly #deps: PickerDeps;
  readonly #parts: PickParts;
  readonly #exchange: PickExchange;
  readonly #tail = new AnswerTail();
  #tracked: TrackedRequest | undefined;
  #options: GenerateOptions | undefined;
  #placement: Placement | undefined;
  /** Name by which a gateway's next try of this request is known; undefined while there is no place to free. */
  #sentAs: string | undefined;
  #hasBegun = false;

  constructor(deps: PickerDeps, parts: PickParts) {
    this.#deps = deps;
    this.#parts = parts;
    this.#exchange = new PickExchange(parts.head, parts.body, (answer) => parts.onAnswer(answer));
  }

  start(): void {
    const { app, pipeline, settings, responseStore } = this.#deps;
    const instead: Partial<HttpAppDeps> = {
      pipeline: withGenerate(pipeline, (request, sink, options) => this.#generate(request, sink, options)),
      // An answer here is only ever a failure, whose status must stay open.
      settings: { ...settings, overloadStatus: 429, peekMs: NEVER_MS, keepAliveMs: 0 },
      responseStore: responseStore && {
        get: (...asked) => responseStore.get(...asked),
        put: () => Promise.resolve(), // the process that answers stores the response
        delete: () => Promise.resolve(false),
        close: () => {},
      },
      onTracked: (tracked) => {
        this.#tracked = tracked;
      },
    };
    app.serve(this.#exchange, instead);
  }

  /** Hears of a part of the answer's body. */
  answerPart(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.begun();
    this.#options?.meter.piece();
    this.#tail.add(chunk);
  }

  /**
   * Hears of the head of the answer.
   * @param isElsewhere whether another endpoint than the picked one has answered, so that its worker is free
   */
  answerHead(isElsewhere: boolean): void {
    this.#noLongerSent();
    if (isElsewhere) this.#free();
  }

  /** Hears that the prompt is computed, because the answer has begun. */
  begun(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#placement?.begun();
  }

  /** Ends the request with the status of its answer. */
  end(status: number): void {
    const placement = this.#placement;
    if (status < FAILURES) {
      const usage = this.#tail.usage(placement?.promptTokens ?? 0);
      if (usage !== undefined) this.#options?.meter.piecesHold(usage.completionTokens);
      if (usage?.cachedTokens !== undefined) this.#options?.meter.cachedTokens(usage.cachedTokens);
      this.#tracked?.answeredElsewhere(usage);
    } else this.#tracked?.failedElsewhere(failureOf(status), status);
    this.#noLongerSent();
    this.#free();
  }

  /** Gives the request up: its client has left. */
  leave(): void {
    this.#exchange.leave();
    this.#noLongerSent();
    this.#free();
  }

  readonly #free = (): void => this.#placement?.release();

  #noLongerSent(): void {
    if (this.#sentAs !== undefined) this.#deps.sent.delete(this.#sentAs, this.#free);
    this.#sentAs = undefined;
  }

  /** Places the first prompt. Further prompts of its body go to the same worker. */
  #generate(request: GenerationRequest, sink: GenerationSink, options: GenerateOptions): void {
    if (this.#options !== undefined) return;
    this.#options = options;
    const { endpoints, placer, sent, metrics } = this.#deps;
    const { signal, meter } = options;
    const admits = (worker: Placement['decode']['worker']): boolean => {
      const all = endpoints.all(worker);
      return all.length > 0 && all.every((endpoint) => this.#parts.isAllowed(endpoint));
    };
    const name = nameOfSent(this.#parts.head, this.#parts.body.parts);
    let isAgain = name !== undefined && isSentAgain(this.#parts.head);
    /** Frees the place of the try before, once. That try may get its place while this one waits for its own. */
    const freeEarlier = (): void => {
      if (!isAgain || name === undefined || !sent.free(name)) return;
      isAgain = false;
      metrics.sentAgain();
    };
    freeEarlier(); // before a worker is chosen, so that it counts
    placer.place(request, sink, { signal, admits }).then(
      (placement) => {
        this.#placement = placement;
        signal.addEventListener('abort', this.#free, { once: true });
        if (signal.aborted) return placement.release();
        freeEarlier();
        if (name !== undefined) sent.add(name, this.#free);
        this.#sentAs = name;
        if (placement.promptTokens !== undefined) meter.promptTokens(placement.promptTokens);
        const decode = { ...placedAt(placement.decode), workerType: 'decode' } as const;
        const prefill = placement.prefill && ({ ...placedAt(placement.prefill), workerType: 'prefill' } as const);
        meter.servedBy(prefill ?? decode, decode);
        this.#exchange.silence();
        this.#parts.onDecision(this.#decisionOf(placement));
      },
      (thrown: unknown) => {
        if (!signal.aborted) sink.fail(toServeError(thrown));
      },
    );
  }

  #decisionOf({ decode, prefill, others }: Placement): Decision {
    const { endpoints, fallbacks } = this.#deps;
    const first = endpoints.of(decode.worker, decode.dpRank) as string; // `admits` has required it
    const next = others.flatMap((worker) => endpoints.of(worker, undefined) ?? []).slice(0, fallbacks);
    return {
      endpoints: [...new Set([first, ...next])],
      decode: placedAt(decode),
      prefill: prefill && { ...placedAt(prefill), endpoint: endpoints.of(prefill.worker, prefill.dpRank) },
    };
  }
}

function placedAt({ worker, dpRank }: Placement['decode']) {
  return { workerId: worker.id, dpRank };
}

function failureOf(status: number): ServeError {
  const what = `the picked endpoint answered with status ${status}`;
  if (status === 429) return new ServeError('server_overloaded', what);
  return status < 500 ? new ServeError('invalid_value', what) : workerError('Unknown', what);
}

/** Returns `pipeline` with another `generate`. */
function withGenerate(pipeline: Pipeline, generate: Pipeline['generate']): Pipeline {
  return {
    models: pipeline.models,
    requestable: pipeline.requestable,
    thresholds: pipeline.thresholds,
    generate,
    countTokens: (request) => pipeline.countTokens(request),
    tokenize: (...asked) => pipeline.tokenize(...asked),
    vocabularyOf: (model) => pipeline.vocabularyOf(model),
    textOf: (...asked) => pipeline.textOf(...asked),
  };
}
