import { toServeError } from '../../../errors/index.ts';
import type { GenerationSink } from '../../../protocol/generation/index.ts';
import { decodeVideos, parseVideosBody } from '../../../protocol/openai/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { type Abandonable, InferenceCall } from '../inference-call.ts';
import { readJson } from '../read-json.ts';
import { decodeContext, openForModel, requireRoute, requireServed, requireService } from './gates.ts';
import { foldedVideoBody } from './media-bodies.ts';
import { MediaUnary } from './media-unary.ts';
import { MotionJpeg } from './motion-jpeg.ts';
import { VideoStream } from './video-stream.ts';
import type { WireNames } from './wire-names.ts';

/** `POST /v1/videos/generations`: one object, or a stream of them. Never rejects. */
export function serveVideos(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  return serve(deps, exchange, false, (call, names, isStream) =>
    isStream ? new VideoStream(call, names) : new MediaUnary(call, (parts) => foldedVideoBody(parts, names)),
  );
}

/** `POST /v1/videos/generations/stream`: pictures as they come. Never rejects. */
export function serveMotionJpeg(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  return serve(deps, exchange, true, (call) => new MotionJpeg(call));
}

async function serve(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  alwaysStreams: boolean,
  openAnswer: (call: InferenceCall, names: WireNames, isStream: boolean) => Abandonable & GenerationSink,
): Promise<void> {
  const call = new InferenceCall(deps, exchange, 'videos');
  try {
    requireService(deps);
    requireRoute(deps, 'Videos');
    const json = await readJson(exchange, deps);
    const body = parseVideosBody(json);
    const isStream = alwaysStreams || body.stream === true;
    const { meter, primaryName } = openForModel(call, body.model, isStream);
    const request = decodeVideos(body, decodeContext(call));
    call.identify(request);
    requireServed(deps, body.model, 'Videos');
    const names = { id: `video_${request.id}`, created: Math.floor(call.receivedMs / 1000), model: primaryName };
    const answer = openAnswer(call, names, isStream);
    const { signal } = call.watch(answer);
    deps.pipeline.generate(request, isStream ? answer : call.kept(answer), { signal, meter });
  } catch (thrown) {
    call.refuse(toServeError(thrown));
  }
}
