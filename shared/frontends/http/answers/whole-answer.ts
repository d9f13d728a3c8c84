import { ServeError, toServeError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';

/**
 * The reader's side of an answer that is kept whole. Its size is bounded by the token budget, or by what a worker makes of
 * one request; so no worker is ever asked to wait for it.
 */
export const NEVER_BLOCKED: Pick<GenerationSink, 'isBlocked' | 'onUnblocked'> = Object.freeze({
  isBlocked: () => false,
  onUnblocked: (callback: () => void) => queueMicrotask(callback),
});

/** An answer that is written in one piece: once, or not at all. */
export abstract class WholeAnswer implements Abandonable {
  protected readonly call: InferenceCall;
  #isOver = false;

  constructor(call: InferenceCall) {
    this.call = call;
  }

  protected get isOver(): boolean {
    return this.#isOver;
  }

  fail(error: ServeError): void {
    if (this.close()) this.refuse(error);
  }

  abandon(): void {
    this.#isOver = true;
  }

  /** Tells the client of a failure, in its dialect. */
  protected refuse(error: ServeError): void {
    this.call.refuse(error);
  }

  /** The answer has been written, or will have been once `written` resolves: then the call is over. */
  protected concludeWhen(written: Promise<void> | undefined, usage: Usage): void {
    if (written === undefined) this.call.succeed(usage);
    else
      written.then(
        () => this.call.succeed(usage),
        (thrown: unknown) => this.refuse(toServeError(thrown)),
      );
  }

  /** From here on nothing more is taken. False when that was so already. */
  protected close(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    return true;
  }
}

/** The whole answer to one request. */
export abstract class UnaryAnswer extends WholeAnswer implements GenerationSink {
  readonly isBlocked = NEVER_BLOCKED.isBlocked;
  readonly onUnblocked = NEVER_BLOCKED.onUnblocked;

  abstract text(choice: number, text: string): void;
  abstract event(event: GenerationEvent): void;
  /** The worker has said something that can be answered with. */
  protected abstract readonly hasOutput: boolean;
  /** Writes the answer; a large one resolves when it has been written. */
  protected abstract write(usage: Usage, finished: boolean): Promise<void> | undefined;

  end(usage: Usage, finished: boolean): void {
    if (this.isOver) return;
    if (!this.hasOutput) {
      this.fail(nothingSent());
      return;
    }
    this.close();
    this.concludeWhen(this.write(usage, finished), usage);
  }
}

/** A worker ended its stream without a word: a failure of which a client is not told more. */
export function nothingSent(): ServeError {
  return new ServeError('internal_error', 'Internal server error', { cause: 'the worker sent nothing' });
}
