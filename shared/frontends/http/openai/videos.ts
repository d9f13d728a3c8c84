import * as z from 'zod';
import { ServeError } from '../../../errors/index.ts';
import { atMost, type GenerationSink, i32, requireShape, type Usage } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';
import { DialectSink, decodeContext, generate, requireServed } from '../../inference/dialect.ts';
import type { Abandonable } from '../../inference/lifecycle.ts';
import type { BodyRoute, Serve } from '../route.ts';
import { type Inference, serveInference } from '../serve-inference.ts';
import { StreamSink } from '../sinks/dialect-sink.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { UNBUFFERED } from '../sinks/send.ts';
import { dataOf, mediaRequest, videoBody, WholeMedia, wholeVideoBody } from './media.ts';

const BOUNDARY = 'frame';

const LINE_END = Buffer.from('\r\n');

/** Body of `POST /v1/videos/generations` and its stream: types only. */
const videosSchema = z.looseObject({
  prompt: z.string(),
  model: z.string(),
  input_reference: z.string().nullish(),
  seconds: i32.nullish(),
  size: z.string().nullish(),
  response_format: z.enum(['url', 'b64_json']).nullish(),
  output_format: z.string().nullish(),
  stream: z.boolean().nullish(),
  user: z.string().nullish(),
  nvext: z.looseObject({ annotations: atMost(z.array(z.string()), 'names').nullish() }).nullish(),
});

const body: BodyRoute['body'] = {
  name: 'VideoRequest',
  schema: videosSchema,
  example: ({ Videos: model }) => ({ model, prompt: 'Waves that roll in', seconds: 2, size: '512x512' }),
};

/** `POST /v1/videos/generations`: one object, or a stream of them. */
export const videos: BodyRoute = {
  serve: serveRoute(false, (inference, names, isStream) =>
    isStream ? new VideoStream(inference, names) : new WholeMedia(inference, (parts) => wholeVideoBody(parts, names)),
  ),
  body,
};

/** `POST /v1/videos/generations/stream`: writes pictures as the worker sends them. */
export const motionJpeg: BodyRoute = { serve: serveRoute(true, (inference) => new MotionJpeg(inference)), body };

/**
 * Refuses `response_format` `url`, because the response carries the pictures themselves.
 * @throws ServeError `invalid_value`
 */
function requireInline({ response_format: format }: z.infer<typeof videosSchema>): void {
  if (format !== 'url') return;
  const message = '`response_format` must be `b64_json` here: the stream carries the pictures themselves, got `url`';
  throw new ServeError('invalid_value', message, { param: 'response_format' });
}

function serveRoute(
  alwaysStreams: boolean,
  openSink: (inference: Inference, names: WireNames, isStream: boolean) => Abandonable & GenerationSink,
): Serve {
  return serveInference({
    endpoint: 'videos',
    isOffWithoutModel: true,
    parse: (json) => requireShape(videosSchema, json),
    isStream: (body) => alwaysStreams || body.stream === true,
    start: (inference, body, { meter, primaryName, isStream }) => {
      if (alwaysStreams) requireInline(body);
      const request = mediaRequest('videos', body, videosSchema.shape, decodeContext(inference));
      inference.identify(request);
      requireServed(inference, body.model, 'videos');
      inference.spans?.answersAs(`video_${request.id}`, false);
      const names = { id: `video_${request.id}`, created: inference.createdSecs, model: primaryName };
      generate(inference, request, openSink(inference, names, isStream), { meter, isWritten: isStream });
    },
  });
}

/**
 * Writes the pictures of a video worker as motion JPEG. The format has no place for an error or an end: a failure
 * before the first picture has its status, a later failure only ends the response.
 */
class MotionJpeg extends DialectSink<Inference> {
  #isCommitted = false;

  override body(body: unknown): void {
    if (this.isOver || !isRecord(body)) return;
    const picture = pictureOf(dataOf(body)[0]?.b64_json);
    if (picture === undefined) return;
    if (isClip(picture)) {
      this.fail(noPictures('a whole video and no pictures'));
      return;
    }
    this.#commit();
    const { sink } = this.inference.exchange;
    sink.write(`--${BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: ${picture.length}\r\n\r\n`);
    sink.write(picture);
    sink.write(LINE_END);
  }

  end(usage: Usage): void {
    if (!this.#isCommitted) this.fail(noPictures('no picture'));
    if (!this.close()) return;
    this.inference.exchange.sink.end();
    this.inference.succeed(usage);
  }

  protected tell(error: ServeError): void {
    if (!this.#isCommitted) {
      this.inference.refuse(error);
      return;
    }
    this.inference.exchange.sink.end();
    this.inference.fail(error, 200);
  }

  #commit(): void {
    if (this.#isCommitted) return;
    this.#isCommitted = true;
    const contentType = `multipart/x-mixed-replace; boundary=${BOUNDARY}`;
    this.inference.exchange.head(200, { 'content-type': contentType, ...UNBUFFERED });
  }
}

function noPictures(holds: string): ServeError {
  const says = `the model's answer holds ${holds} to stream: ask for \`response_format\` \`b64_json\`, or without the stream`;
  return new ServeError('bad_worker_response', says);
}

const WEBM = Buffer.of(0x1a, 0x45, 0xdf, 0xa3);

/** Returns whether the bytes are a whole video, MP4 or WebM, which cannot be a part of a stream of pictures. */
function isClip(bytes: Buffer): boolean {
  return bytes.toString('latin1', 4, 8) === 'ftyp' || bytes.subarray(0, 4).equals(WEBM);
}

/** Returns the bytes of a picture; undefined for text that is not base64, which the stream skips. */
function pictureOf(base64: unknown): Buffer | undefined {
  if (typeof base64 !== 'string' || base64 === '') return undefined;
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : undefined;
}

/** Encodes each object of a video worker as one event. */
class VideoStream extends StreamSink {
  readonly #names: WireNames;

  constructor(inference: Inference, names: WireNames) {
    super(inference);
    this.#names = names;
  }

  override body(body: unknown): void {
    if (isRecord(body)) this.out.write(`data: ${JSON.stringify(videoBody(body, this.#names))}\n\n`);
  }

  end(usage: Usage): void {
    if (!this.close()) return;
    this.out.finish();
    this.inference.succeed(usage);
  }
}
