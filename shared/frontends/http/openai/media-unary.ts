import type { GenerationEvent } from '../../../protocol/generation/index.ts';
import { UnaryAnswer } from '../answers/whole-answer.ts';
import { writeObject } from '../answers/written-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { isBody } from './media-bodies.ts';

/** Gathers what a media worker sends and answers with one object. */
export class MediaUnary extends UnaryAnswer {
  readonly #fold: (parts: readonly Readonly<Record<string, unknown>>[]) => object;
  readonly #parts: Readonly<Record<string, unknown>>[] = [];

  /** @param fold makes the answer of the worker's parts; there is at least one */
  constructor(call: InferenceCall, fold: (parts: readonly Readonly<Record<string, unknown>>[]) => object) {
    super(call);
    this.#fold = fold;
  }

  text(): void {
    // a worker that took the body untouched sends bodies
  }

  event(event: GenerationEvent): void {
    if (!this.isOver && event.kind === 'body' && isBody(event.body)) this.#parts.push(event.body);
  }

  protected get hasOutput(): boolean {
    return this.#parts.length > 0;
  }

  protected write(): Promise<void> | undefined {
    return writeObject(this.call, this.#fold(this.#parts));
  }
}
