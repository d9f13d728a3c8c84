import type { GenerationEvent, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import { StreamAnswer } from '../answers/stream-answer.ts';
import type { InferenceCall } from '../inference-call.ts';
import { isBody, videoBody } from './media-bodies.ts';
import type { WireNames } from './wire-names.ts';

/** Encodes each object of a video worker as one event. */
export class VideoStream extends StreamAnswer implements GenerationSink {
  readonly #names: WireNames;

  constructor(call: InferenceCall, names: WireNames) {
    super(call);
    this.#names = names;
  }

  text(): void {
    // a worker that took the body untouched sends bodies
  }

  event(event: GenerationEvent): void {
    if (this.isOver || event.kind !== 'body' || !isBody(event.body)) return;
    this.out.write(`data: ${JSON.stringify(videoBody(event.body, this.#names))}\n\n`);
  }

  end(usage: Usage): void {
    if (!this.close()) return;
    this.out.finish();
    this.call.succeed(usage);
  }
}
