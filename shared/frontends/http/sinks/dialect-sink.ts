import { ServeError, toServeError } from '../../../errors/index.ts';
import type {
  GenerationSink,
  ServingWorkers,
  TextDelta,
  TextFinish,
  Usage,
} from '../../../protocol/generation/index.ts';
import type { Abandonable, Inference } from '../inference.ts';
import { SseStream } from './sse-stream.ts';

/** A sink of which a dialect says only what has a place in it: everything else is left out. */
abstract class PartialSink implements GenerationSink {
  abstract end(usage: Usage, finished: boolean): void;
  abstract fail(error: ServeError): void;
  abstract isBlocked(): boolean;
  abstract onUnblocked(callback: () => void): void;

  text(_choice: number, _text: string, _tokenCount: number): void {}

  delta({ choice, text }: TextDelta): void {
    this.text(choice, text, 0);
  }

  finish({ choice, text }: TextFinish): void {
    this.text(choice, text, 0);
  }

  reasoning(_choice: number, _text: string): void {}
  toolCall(_choice: number, _index: number, _id: string, _name: string): void {}
  toolArguments(_choice: number, _index: number, _text: string): void {}
  annotation(_name: string, _value: string): void {}
  worker(_workers: ServingWorkers): void {}
  engineData(_data: Readonly<Record<string, unknown>>): void {}
  body(_body: unknown): void {}
}

/** Writes the answer to one inference request: how it ends, in any way but once, and what its reader has to do with that. */
export abstract class DialectSink extends PartialSink implements Abandonable {
  protected readonly inference: Inference;
  #isOver = false;

  constructor(inference: Inference) {
    super();
    this.inference = inference;
  }

  /** Nothing is written any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  fail(error: ServeError): void {
    if (this.close()) this.tell(error);
  }

  abandon(): void {
    this.close();
  }

  isBlocked(): boolean {
    return this.inference.exchange.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.inference.exchange.sink.onUnblocked(callback);
  }

  /** Tells the client of a failure, in its dialect. */
  protected abstract tell(error: ServeError): void;

  /** From here on nothing more is taken. False when that was so already. */
  protected close(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    return true;
  }
}

/** An answer that is written event by event. */
export abstract class StreamSink extends DialectSink {
  protected readonly out: SseStream;

  /** The parameters behind `inference` are those of `SseStream`. */
  constructor(inference: Inference, headers?: Readonly<Record<string, string>>, keepAliveFrame?: () => string) {
    super(inference);
    this.out = new SseStream(inference, headers, keepAliveFrame);
  }

  override abandon(): void {
    super.abandon();
    this.out.abandon();
  }

  /** By the status, or inside the stream. */
  protected tell(error: ServeError): void {
    const status = this.out.statusOf(error);
    this.out.fail(error);
    this.inference.fail(error, status);
  }
}

/**
 * An answer that is written in one piece: once, or not at all. Its size is bounded by the token budget, or by what a worker
 * makes of one request; so no worker is ever asked to wait for it.
 */
export abstract class WholeSink extends DialectSink {
  /** The worker has said something that can be shown. */
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
    const written = this.write(usage, finished);
    if (written === undefined) this.inference.succeed(usage);
    else
      written.then(
        () => this.inference.succeed(usage),
        (thrown: unknown) => this.tell(toServeError(thrown)),
      );
  }

  override isBlocked(): boolean {
    return false;
  }

  override onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }

  protected tell(error: ServeError): void {
    this.inference.refuse(error);
  }
}

/** Writes one request of a batch, whose first failure ends all of it. */
export abstract class BatchPart<Batch extends DialectSink> extends PartialSink {
  protected readonly batch: Batch;

  constructor(batch: Batch) {
    super();
    this.batch = batch;
  }

  fail(error: ServeError): void {
    this.batch.fail(error);
  }

  isBlocked(): boolean {
    return this.batch.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.batch.onUnblocked(callback);
  }
}

/** Counts the ends of the requests of a batch, and adds up what they used. */
export class BatchUsage {
  #left: number;
  #sum: Usage | undefined;

  /** @param requests in the batch */
  constructor(requests: number) {
    this.#left = requests;
  }

  /** One request has ended; gives the usage of all when it was the last. */
  ended(usage: Usage): Usage | undefined {
    this.#sum = this.#sum === undefined ? usage : addUsage(this.#sum, usage);
    return --this.#left > 0 ? undefined : this.#sum;
  }
}

function addUsage(a: Usage, b: Usage): Usage {
  const cachedTokens = addOptional(a.cachedTokens, b.cachedTokens);
  const reasoningTokens = addOptional(a.reasoningTokens, b.reasoningTokens);
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(a.hidesCache === true ? { hidesCache: true } : {}),
    ...(reasoningTokens === undefined ? {} : { reasoningTokens }),
  };
}

function addOptional(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : a + (b ?? 0);
}

/** A worker ended its stream without a word: a failure of which a client is not told more. */
export function nothingSent(): ServeError {
  return new ServeError('internal_error', 'Internal server error', { cause: 'the worker sent nothing' });
}
