import { toServeError } from '../../../errors/index.ts';
import {
  type GenerationEvent,
  type GenerationSink,
  logprobsMemory,
  textMemory,
  type Usage,
  valueMemory,
} from '../../../protocol/generation/index.ts';
import type { InferenceCall } from '../inference-call.ts';

/** The sink of an answer that is kept until it is whole: what it keeps counts against its room, beyond which it is broken off. */
export class KeptSink implements GenerationSink {
  readonly #call: InferenceCall;
  readonly #sink: GenerationSink;

  constructor(call: InferenceCall, sink: GenerationSink) {
    this.#call = call;
    this.#sink = sink;
  }

  text(choice: number, text: string, tokenCount: number): void {
    if (this.#fits(textMemory(text))) this.#sink.text(choice, text, tokenCount);
  }

  event(event: GenerationEvent): void {
    if (this.#fits(memoryOf(event))) this.#sink.event(event);
  }

  end(usage: Usage, finished: boolean): void {
    this.#sink.end(usage, finished);
  }

  fail(error: Parameters<GenerationSink['fail']>[0]): void {
    this.#sink.fail(error);
  }

  isBlocked(): boolean {
    return this.#sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#sink.onUnblocked(callback);
  }

  #fits(bytes: number): boolean {
    try {
      this.#call.room.take(bytes);
      return true;
    } catch (thrown) {
      this.#call.breakOff(toServeError(thrown));
      return false;
    }
  }
}

function memoryOf(event: GenerationEvent): number {
  switch (event.kind) {
    case 'delta':
    case 'finish':
      return textMemory(event.text) + (event.logprobs === undefined ? 0 : logprobsMemory(event.logprobs));
    case 'body':
      return valueMemory(event.body);
    case 'engine-data':
      return valueMemory(event.data);
    case 'tool-call':
      return textMemory(event.name);
    case 'reasoning':
    case 'tool-arguments':
      return textMemory(event.text);
    case 'annotation':
    case 'worker':
      return 0; // a handful, and small
  }
}
