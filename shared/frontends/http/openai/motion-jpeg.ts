import type { ServeError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import { dataOf, isBody } from './media-bodies.ts';

const BOUNDARY = 'frame';
const LINE_END = Buffer.from('\r\n');

/**
 * Writes the pictures of a video worker as motion JPEG. The format has no place for an error and
 * none for an end: what fails before the first picture has its status, what fails later just ends.
 */
export class MotionJpeg implements Abandonable, GenerationSink {
  readonly #call: InferenceCall;
  #isCommitted = false;
  #isOver = false;

  constructor(call: InferenceCall) {
    this.#call = call;
  }

  text(): void {
    // a worker that took the body untouched sends bodies
  }

  event(event: GenerationEvent): void {
    if (this.#isOver || event.kind !== 'body' || !isBody(event.body)) return;
    const picture = pictureOf(dataOf(event.body)[0]?.b64_json);
    if (picture === undefined) return;
    this.#commit();
    const { sink } = this.#call.exchange;
    sink.write(`--${BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: ${picture.length}\r\n\r\n`);
    sink.write(picture);
    sink.write(LINE_END);
  }

  end(usage: Usage): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#commit();
    this.#call.exchange.sink.end();
    this.#call.succeed(usage);
  }

  fail(error: ServeError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (!this.#isCommitted) {
      this.#call.refuse(error);
      return;
    }
    this.#call.exchange.sink.end();
    this.#call.fail(error, 200);
  }

  abandon(): void {
    this.#isOver = true;
  }

  isBlocked(): boolean {
    return this.#call.exchange.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#call.exchange.sink.onUnblocked(callback);
  }

  #commit(): void {
    if (this.#isCommitted) return;
    this.#isCommitted = true;
    this.#call.exchange.head(200, { 'content-type': `multipart/x-mixed-replace; boundary=${BOUNDARY}` });
  }
}

/** The bytes of a picture; undefined for what is no base64, which is skipped. */
function pictureOf(base64: unknown): Buffer | undefined {
  if (typeof base64 !== 'string' || base64 === '') return undefined;
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : undefined;
}
