import type { GenerationSink } from '../../../protocol/generation/index.ts';
import { decodeVideos, parseVideosBody } from '../../../protocol/openai/index.ts';
import { decodeContext, requireServed } from '../gates.ts';
import type { Abandonable, InferenceCall } from '../inference-call.ts';
import type { Serve } from '../route.ts';
import { generate, serveInference } from '../serve-inference.ts';
import { foldedVideoBody } from './media-bodies.ts';
import { MediaUnary } from './media-unary.ts';
import { MotionJpeg } from './motion-jpeg.ts';
import { VideoStream } from './video-stream.ts';
import type { WireNames } from './wire-names.ts';

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
