import { ServeError, toServeError } from '../../../errors/index.ts';
import type { Usage } from '../../../protocol/generation/index.ts';
import { DialectSink, PartialSink } from '../../inference/index.ts';
import type { Inference } from '../inference.ts';
import { SseStream } from './sse-stream.ts';

/** An answer that is written event by event. */
export abstract class StreamSink extends DialectSink<Inference> {
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
export abstract class WholeSink extends DialectSink<Inference> {
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
export abstract class BatchPart<Batch extends DialectSink<Inference>> extends PartialSink {
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
