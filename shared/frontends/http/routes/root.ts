import packageJson from '../../../../package.json' with { type: 'json' };
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { DOCS_PATH, OPENAPI_PATH } from '../openapi/serve-docs.ts';
import type { HttpSettings } from '../settings.ts';
import { sendText } from '../sinks/send.ts';

/** `GET /`: where things are, as a page for a browser and as JSON for everybody else. */
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

function placesOf({ paths }: HttpSettings): readonly Place[] {
  return [
    { name: 'docs', path: DOCS_PATH, about: 'every route, to try in the browser' },
    { name: 'openapi', path: OPENAPI_PATH, about: 'the same for programs' },
    { name: 'models', path: paths.models, about: 'what can be asked for now' },
    { name: 'health', path: paths.health, about: 'state of the service' },
    { name: 'metrics', path: paths.metrics, about: 'figures for Prometheus' },
  ];
}

/** Browsers name HTML first; programs take anything. */
function wantsPage(accept: string | undefined): boolean {
  return accept?.includes('text/html') === true;
}

/** Links are relative: the page may stand behind a prefix of the host. The paths are the operator's. */
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
