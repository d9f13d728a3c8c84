import type { ServeError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import { SseStream } from '../sse-stream.ts';
import { isBody, videoBody } from './media-bodies.ts';
import type { WireNames } from './wire-names.ts';

/** Encodes each object of a video worker as one event (http-api.md, section 8.2). */
export class VideoStream implements Abandonable, GenerationSink {
  readonly #call: InferenceCall;
  readonly #names: WireNames;
  readonly #out: SseStream;
  #isOver = false;

  constructor(call: InferenceCall, names: WireNames) {
    this.#call = call;
    this.#names = names;
    this.#out = new SseStream(call);
  }

  text(): void {
    // a worker that took the body untouched sends bodies
  }

  event(event: GenerationEvent): void {
    if (this.#isOver || event.kind !== 'body' || !isBody(event.body)) return;
    this.#out.write(`data: ${JSON.stringify(videoBody(event.body, this.#names))}\n\n`);
  }

  end(usage: Usage): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#out.finish();
    this.#call.succeed(usage);
  }

  fail(error: ServeError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const status = this.#out.statusOf(error);
    this.#out.fail(error);
    this.#call.fail(error, status);
  }

  abandon(): void {
    this.#isOver = true;
    this.#out.abandon();
  }

  isBlocked(): boolean {
    return this.#call.exchange.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#call.exchange.sink.onUnblocked(callback);
  }
}
