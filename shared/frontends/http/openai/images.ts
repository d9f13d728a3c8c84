import { decodeImages, parseImagesBody } from '../../../protocol/openai/index.ts';
import { decodeContext, requireServed } from '../gates.ts';
import { readJson } from '../read-json.ts';
import type { Serve } from '../route.ts';
import { generate, serveInference } from '../serve-inference.ts';
import { isForm, readImageForm } from './image-form.ts';
import { imagesBody } from './media-bodies.ts';
import { MediaUnary } from './media-unary.ts';

/** `POST /v1/images/generations`. */
export const serveImages = serveRoute('generations');

/** `POST /v1/images/edits`: the same, starting from a picture, as JSON or as the form that OpenAI's clients send. */
export const serveImageEdits = serveRoute('edits');

function serveRoute(route: 'generations' | 'edits'): Serve {
  return serveInference({
    endpoint: 'images',
    isOffWithoutModel: true,
    read: (exchange, deps) =>
      route === 'edits' && isForm(exchange) ? readImageForm(exchange, deps) : readJson(exchange, deps),
    parse: parseImagesBody,
    isStream: () => false,
    answer: (call, body, { meter, primaryName }) => {
      const request = decodeImages(body, route, decodeContext(call));
      call.identify(request);
      requireServed(call.deps, body.model, 'images');
      const names = { id: request.id, created: call.createdSecs, model: primaryName };
      generate(call, request, new MediaUnary(call, (parts) => imagesBody(parts, names)), { meter, isWritten: false });
    },
  });
}
