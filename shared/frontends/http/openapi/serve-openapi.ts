import { answerText } from '../answers/answer.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import type { HttpSettings } from '../settings.ts';

export const OPENAPI_PATH = '/openapi.json';

const documents = new WeakMap<HttpSettings, string>();

/** `GET /openapi.json` (http-api.md, section 10.4). The document is made when it is first asked for. */
export async function serveOpenApi({ settings }: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  let text = documents.get(settings);
  if (text === undefined) {
    // Loaded on demand: a function that is only asked for answers never parses it.
    const { openApiDocument } = await import('./document.ts');
    text = JSON.stringify(openApiDocument(settings));
    documents.set(settings, text);
  }
  answerText(exchange, 200, 'application/json', text);
}
