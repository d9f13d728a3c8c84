import { join } from 'node:path';
import packageJson from '../../../../package.json' with { type: 'json' };
import { loadCode, ServeError } from '../../../errors/index.ts';
import { modelsShown } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { CONSOLE_PATH, type Operation, type Serve } from '../route.ts';
import type { HttpSettings } from '../settings.ts';
import { sendText } from '../sinks/send.ts';
import { assetFolder, sendAsset } from '../sinks/send-asset.ts';
import { exampleModels } from './examples.ts';

export const OPENAPI_PATH = '/openapi.json';

interface MadeDocument {
  /** Names of the models in the examples. */
  readonly models: string;
  readonly text: string;
}

/**
 * `GET /openapi.json`: sends the document. The first request makes it, and a later one makes it again if the examples
 * name other models.
 */
export function serveOpenApi(operations: readonly Operation[]): Serve {
  let document: MadeDocument | undefined;
  // The imports are lazy: a function parses the code only if a client asks for the document.
  const load = () =>
    loadCode('the OpenAPI document', async () => {
      const answers = operations.map(({ answer }) => answer?.());
      const [{ openApiDocument }] = await Promise.all([import('./document.ts'), ...answers]);
      return openApiDocument;
    });
  const serve = async (deps: HttpAppDeps, exchange: HttpExchange): Promise<void> => {
    const models = exampleModels(modelsShown(deps, exchange, 'models'));
    const key = JSON.stringify(models);
    if (document?.models !== key) {
      const openApiDocument = await load();
      document = { models: key, text: JSON.stringify(await openApiDocument(operations, deps.settings, models)) };
    }
    sendText(exchange, 200, 'application/json', document.text);
  };
  return Object.assign(serve, { load });
}

export const DOCS_PATH = '/docs';

/** Files that the page loads. The page itself is written here, so that nothing comes from another host. */
const ASSETS: ReadonlyMap<string, string> = new Map([
  ['swagger-ui.css', 'text/css; charset=utf-8'],
  ['swagger-ui-bundle.js', 'text/javascript; charset=utf-8'],
]);
const CACHED = { 'cache-control': 'public, max-age=86400' };

const NO_PAGE = 'This deployment has no documentation page; the API is described at /openapi.json';

/** HTML of the page. The document's address is relative, because the page may be behind a prefix of the host. */
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

/** `GET /docs`: redirects to the page, which has a folder of its own. */
export function redirectToDocs(_deps: HttpAppDeps, exchange: HttpExchange): void {
  exchange.head(303, { location: `${DOCS_PATH}/`, 'content-length': '0' });
  exchange.sink.end();
}

/** `GET /docs/` and the files that the page loads. */
export async function serveDocs(_deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const name = exchange.path.slice(DOCS_PATH.length + 1);
  const type = ASSETS.get(name);
  const folder = assetFolder('swagger-ui', 'node_modules/swagger-ui-dist');
  if (folder === undefined || (name !== '' && type === undefined)) {
    const message = folder === undefined ? NO_PAGE : `Route not found: ${exchange.method} ${exchange.path}`;
    throw new ServeError('not_found', message);
  }
  if (type === undefined) {
    sendText(exchange, 200, 'text/html; charset=utf-8', PAGE);
  } else {
    await sendAsset(exchange, join(folder, name), type, CACHED);
  }
}

/** `GET /`: lists the places of this server, as a page for browsers and as JSON for other clients. */
export function serveRoot({ settings }: HttpAppDeps, exchange: HttpExchange): void {
  const places = placesOf(settings);
  if (wantsPage(exchange.header('accept'))) {
    sendText(exchange, 200, 'text/html; charset=utf-8', pageOf(places));
    return;
  }
  const links = Object.fromEntries(places.map(({ name, path }) => [name, path]));
  const body = { name: packageJson.name, version: packageJson.version, ...links };
  sendText(exchange, 200, 'application/json', `${JSON.stringify(body, undefined, 2)}\n`);
}

interface Place {
  readonly name: string;
  readonly path: string;
  readonly about: string;
}

function placesOf({ paths, hasConsole }: HttpSettings): readonly Place[] {
  return [
    ...(hasConsole
      ? [{ name: 'console', path: CONSOLE_PATH, about: 'the fleet, its requests and their routing' }]
      : []),
    { name: 'docs', path: DOCS_PATH, about: 'every route, to try in the browser' },
    { name: 'openapi', path: OPENAPI_PATH, about: 'the same for programs' },
    { name: 'models', path: paths.models, about: 'what can be asked for now' },
    { name: 'health', path: paths.health, about: 'state of the service' },
    { name: 'metrics', path: paths.metrics, about: 'figures for Prometheus' },
  ];
}

/** Returns whether to send a page. Browsers name HTML first; programs accept anything. */
function wantsPage(accept: string | undefined): boolean {
  return accept?.includes('text/html') === true;
}

/**
 * Returns the page of places. Links are relative, because the page may be behind a prefix of the host. The operator
 * sets the paths.
 */
function pageOf(places: readonly Place[]): string {
  const rows = places.map(
    ({ path, about }) => `<li><a href="${escapeMarkup(path.slice(1))}">${escapeMarkup(path)}</a> ${about}</li>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stator</title>
<link rel="icon" href="data:,">
<style>body { margin: 10vh auto; max-width: 36rem; padding: 0 1rem; font: 16px/1.6 system-ui, sans-serif; color-scheme: light dark; }</style>
</head>
<body>
<h1>Stator ${packageJson.version}</h1>
<p>${escapeMarkup(packageJson.description)}.</p>
<ul>
${rows.join('\n')}
</ul>
</body>
</html>
`;
}

function escapeMarkup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
