import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import type { Operation, Serve } from '../route.ts';
import { sendText } from '../sinks/send.ts';
import { exampleModels } from './examples.ts';

export const OPENAPI_PATH = '/openapi.json';

interface MadeDocument {
  /** The models that its examples ask for. */
  readonly models: string;
  readonly text: string;
}

/** `GET /openapi.json`. The document is made when it is first asked for, and anew when its examples name other models. */
export function serveOpenApi(operations: readonly Operation[]): Serve {
  let document: MadeDocument | undefined;
  return async ({ settings, pipeline }: HttpAppDeps, exchange: HttpExchange): Promise<void> => {
    const models = exampleModels(pipeline.models.list());
    const key = JSON.stringify(models);
    if (document?.models !== key) {
      // Loaded on demand: a function that is only asked for answers never parses it.
      const { openApiDocument } = await import('./document.ts');
      document = { models: key, text: JSON.stringify(openApiDocument(operations, settings, models)) };
    }
    sendText(exchange, 200, 'application/json', document.text);
  };
}
