import type { ServeError } from '../../../../errors/index.ts';
import { SseStream } from '../../answers/sse-stream.ts';
import { objectText } from '../../answers/written-answer.ts';
import type { InferenceCall } from '../../inference-call.ts';
import { ItemFrames } from './item-frames.ts';
import type { FinalEvent, ResponsesOutlet } from './responses-outlet.ts';

/** An answer as events. */
export class ResponsesStream implements ResponsesOutlet {
  readonly observer: ItemFrames;
  readonly needsItem = false;
  readonly #out: SseStream;

  constructor(call: InferenceCall, headers: Readonly<Record<string, string>>, showsSummary: boolean) {
    const out = new SseStream(call, headers);
    this.#out = out;
    this.observer = new ItemFrames((frame, isKnownAscii) => out.write(frame, isKnownAscii), showsSummary);
  }

  get isBegun(): boolean {
    return this.#out.isCommitted;
  }

  /** Both events wait with the head: until something was generated, a failure still has its status. */
  begin(body: string): void {
    this.#out.annotate(this.observer.response('response.created', body));
    this.#out.annotate(this.observer.response('response.in_progress', body));
  }

  annotate(frame: string): void {
    this.#out.annotate(frame);
  }

  finish(event: FinalEvent, body: object, nvext: Iterable<string>): undefined {
    this.#out.close(this.observer.response(event, objectText(body, nvext)));
  }

  refuse(error: ServeError): void {
    this.#out.fail(error);
  }

  abandon(): void {
    this.#out.abandon();
  }
}
