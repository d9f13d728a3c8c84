import type { ServeError } from '../../../errors/index.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import { SseStream } from './sse-stream.ts';

/** An answer that is written event by event: what its failures and its reader have in common. */
export abstract class StreamAnswer implements Abandonable {
  protected readonly call: InferenceCall;
  protected readonly out: SseStream;
  #isOver = false;

  /** The parameters behind `call` are those of `SseStream`. */
  constructor(call: InferenceCall, headers?: Readonly<Record<string, string>>, keepAliveFrame?: () => string) {
    this.call = call;
    this.out = new SseStream(call, headers, keepAliveFrame);
  }

  /** Nothing is written any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  fail(error: ServeError): void {
    if (this.close()) this.tell(error);
  }

  abandon(): void {
    this.#isOver = true;
    this.out.abandon();
  }

  isBlocked(): boolean {
    return this.call.exchange.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.call.exchange.sink.onUnblocked(callback);
  }

  /** Tells the client of a failure, in its dialect: by the status, or inside the stream. */
  protected tell(error: ServeError): void {
    const status = this.out.statusOf(error);
    this.out.fail(error);
    this.call.fail(error, status);
  }

  /** From here on nothing more is taken. False when that was so already. */
  protected close(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    return true;
  }
}
