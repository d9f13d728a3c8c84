import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ServeError } from '../../../errors/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import type { Operation, Serve } from '../route.ts';
import { sendError, sendText } from '../sinks/send.ts';
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
      // Loaded on demand: a function that nobody asks for it never parses it.
      const { openApiDocument } = await import('./document.ts');
      document = { models: key, text: JSON.stringify(openApiDocument(operations, settings, models)) };
    }
    sendText(exchange, 200, 'application/json', document.text);
  };
}

export const DOCS_PATH = '/docs';

/** What the page loads; the page itself is ours, so that nothing comes from another host. */
const ASSETS: ReadonlyMap<string, string> = new Map([
  ['swagger-ui.css', 'text/css; charset=utf-8'],
  ['swagger-ui-bundle.js', 'text/javascript; charset=utf-8'],
]);
const CACHED = { 'cache-control': 'public, max-age=86400' };

const NO_PAGE = 'This deployment has no documentation page; the API is described at /openapi.json';

/** The document's address is relative: the page may stand behind a prefix of the host. */
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stator API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({ url: '../openapi.json', dom_id: '#swagger-ui', deepLinking: true });</script>
</body>
</html>
`;

/** `GET /docs`: the page has a folder of its own. */
export function redirectToDocs(_deps: HttpAppDeps, exchange: HttpExchange): void {
  exchange.head(303, { location: `${DOCS_PATH}/`, 'content-length': '0' });
  exchange.sink.end();
}

/** `GET /docs/` and what the page loads. */
export async function serveDocs({ settings }: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const name = exchange.path.slice(DOCS_PATH.length + 1);
  const type = ASSETS.get(name);
  const folder = assetFolder();
  if (folder === undefined || (name !== '' && type === undefined)) {
    const message = folder === undefined ? NO_PAGE : `Route not found: ${exchange.method} ${exchange.path}`;
    sendError(exchange, new ServeError('not_found', message), settings.overloadStatus);
  } else if (type === undefined) {
    sendText(exchange, 200, 'text/html; charset=utf-8', PAGE);
  } else {
    sendText(exchange, 200, type, await readFile(join(folder, name), 'utf8'), CACHED);
  }
}

/** Beside the bundles, or the package itself when run from sources. */
function assetFolder(): string | undefined {
  const here = dirname(fileURLToPath(import.meta.url));
  const places = [
    join(here, 'swagger-ui'),
    join(here, '..', 'swagger-ui'),
    join(here, '../../../../node_modules/swagger-ui-dist'),
  ];
  return places.find((place) => existsSync(place));
}
