import { toServeError } from '../../../errors/index.ts';
import { decodeImages, parseImagesBody } from '../../../protocol/openai/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { InferenceCall } from '../inference-call.ts';
import { readJson } from '../read-json.ts';
import { decodeContext, openForModel, requireRoute, requireServed, requireService } from './gates.ts';
import { isForm, readImageForm } from './image-form.ts';
import { imagesBody } from './media-bodies.ts';
import { MediaUnary } from './media-unary.ts';

/** `POST /v1/images/generations`. Answers through the exchange's sink; never rejects. */
export function serveImages(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  return serve(deps, exchange, 'generations');
}

/** `POST /v1/images/edits`: the same, starting from a picture, as JSON or as the form that OpenAI's clients send. */
export function serveImageEdits(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  return serve(deps, exchange, 'edits');
}

async function serve(deps: HttpAppDeps, exchange: HttpExchange, route: 'generations' | 'edits'): Promise<void> {
  const call = new InferenceCall(deps, exchange, 'images');
  try {
    requireService(deps);
    requireRoute(deps, 'Images');
    const read = route === 'edits' && isForm(exchange) ? readImageForm : readJson;
    const json = await read(exchange, deps);
    const body = parseImagesBody(json);
    const { meter, primaryName } = openForModel(call, body.model, false);
    const request = decodeImages(body, route, decodeContext(call));
    call.identify(request);
    requireServed(deps, body.model, 'Images');
    const names = { id: request.id, created: Math.floor(call.receivedMs / 1000), model: primaryName };
    const answer = new MediaUnary(call, (parts) => imagesBody(parts, names));
    const { signal } = call.watch(answer);
    deps.pipeline.generate(request, call.kept(answer), { signal, meter });
  } catch (thrown) {
    call.refuse(toServeError(thrown));
  }
}
