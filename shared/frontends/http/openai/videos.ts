import type { ServeError } from '../../../errors/index.ts';
import type { GenerationEvent, GenerationSink, Usage } from '../../../protocol/generation/index.ts';
import { decodeVideos, parseVideosBody } from '../../../protocol/openai/index.ts';
import { StreamAnswer } from '../answers/stream-answer.ts';
import { decodeContext, requireServed } from '../gates.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import type { Serve } from '../route.ts';
import { generate, serveInference } from '../serve-inference.ts';
import { dataOf, foldedVideoBody, isBody, videoBody } from './media-bodies.ts';
import { MediaUnary } from './media-unary.ts';
import type { WireNames } from './wire-names.ts';

const BOUNDARY = 'frame';

const LINE_END = Buffer.from('\r\n');

/** `POST /v1/videos/generations`: one object, or a stream of them. */
export const serveVideos = serveRoute(false, (call, names, isStream) =>
  isStream ? new VideoStream(call, names) : new MediaUnary(call, (parts) => foldedVideoBody(parts, names)),
);

/** `POST /v1/videos/generations/stream`: pictures as they come. */
export const serveMotionJpeg = serveRoute(true, (call) => new MotionJpeg(call));

function serveRoute(
  alwaysStreams: boolean,
  openAnswer: (call: InferenceCall, names: WireNames, isStream: boolean) => Abandonable & GenerationSink,
): Serve {
  return serveInference({
    endpoint: 'videos',
    isOffWithoutModel: true,
    parse: parseVideosBody,
    isStream: (body) => alwaysStreams || body.stream === true,
    answer: (call, body, { meter, primaryName, isStream }) => {
      const request = decodeVideos(body, decodeContext(call));
      call.identify(request);
      requireServed(call.deps, body.model, 'videos');
      const names = { id: `video_${request.id}`, created: call.createdSecs, model: primaryName };
      generate(call, request, openAnswer(call, names, isStream), { meter, isWritten: isStream });
    },
  });
}

/**
 * Writes the pictures of a video worker as motion JPEG. The format has no place for an error and
 * none for an end: what fails before the first picture has its status, what fails later just ends.
 */
class MotionJpeg implements Abandonable, GenerationSink {
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

/** Encodes each object of a video worker as one event. */
class VideoStream extends StreamAnswer implements GenerationSink {
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
