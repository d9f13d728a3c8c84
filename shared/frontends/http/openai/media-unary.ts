import { ServeError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import { answerJson } from '../answer.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import { isBody } from './media-bodies.ts';

/** Gathers what a media worker sends and answers with one object (http-api.md, section 8). */
export class MediaUnary implements Abandonable, GenerationSink {
  readonly #call: InferenceCall;
  readonly #fold: (parts: readonly Readonly<Record<string, unknown>>[]) => object;
  readonly #parts: Readonly<Record<string, unknown>>[] = [];
  #isOver = false;

  /** @param fold makes the answer of the worker's parts; there is at least one */
  constructor(call: InferenceCall, fold: (parts: readonly Readonly<Record<string, unknown>>[]) => object) {
    this.#call = call;
    this.#fold = fold;
  }

  text(): void {
    // a worker that took the body untouched sends bodies
  }

  event(event: GenerationEvent): void {
    if (!this.#isOver && event.kind === 'body' && isBody(event.body)) this.#parts.push(event.body);
  }

  end(usage: Usage): void {
    if (this.#isOver) return;
    if (this.#parts.length === 0) {
      this.fail(new ServeError('internal_error', 'Internal server error', { cause: 'the worker sent nothing' }));
      return;
    }
    this.#isOver = true;
    answerJson(this.#call.exchange, 200, this.#fold(this.#parts));
    this.#call.succeed(usage);
  }

  fail(error: ServeError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#call.refuse(error);
  }

  abandon(): void {
    this.#isOver = true;
  }

  /** A unary answer is kept whole; how large pictures get is the worker's to bound. */
  isBlocked(): boolean {
    return false;
  }

  onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }
}
