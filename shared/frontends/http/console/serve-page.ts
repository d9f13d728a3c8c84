import { join } from 'node:path';
import { ServeError } from '../../../errors/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { CONSOLE_PATH, shownId } from '../route.ts';
import { type AssetPlace, assetFolder, sendAsset } from '../sinks/send-asset.ts';

/** Files of the page. None contains data, so any client may have them. */
const ASSETS: ReadonlyMap<string, string> = new Map([
  ['', 'text/html; charset=utf-8'],
  ['console.css', 'text/css; charset=utf-8'],
  ['console.js', 'text/javascript; charset=utf-8'],
]);

/** Lets the page load only its own files and ask only its own server, and lets no other page show it. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache', // a page of another release would not understand the data
};

const NO_PAGE = `This process was built without the page of the console; its data are at ${CONSOLE_PATH}/api`;

/**
 * `GET /console`: redirects to the page, which has a folder of its own. The address is relative to a prefix of the
 * host.
 */
export function redirectToConsole(_deps: HttpAppDeps, exchange: HttpExchange): void {
  exchange.head(303, { location: `${CONSOLE_PATH.slice(1)}/`, 'content-length': '0' });
  exchange.sink.end();
}

/** `GET /console/` and the files that the page loads. */
export async function serveConsolePage(_deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const isFile = await sendPageFile(exchange, exchange.path.slice(CONSOLE_PATH.length + 1));
  if (!isFile) throw new ServeError('not_found', `Route not found: ${exchange.method} ${shownId(exchange.path)}`);
}

/**
 * Sends a file of the page. Returns false if it has none of that name. @param name empty = the page itself
 * @throws ServeError `not_found` if this process was built without the page
 */
export async function sendPageFile(exchange: AssetPlace, name: string): Promise<boolean> {
  const type = ASSETS.get(name);
  if (type === undefined) return false;
  const folder = assetFolder('console-page', 'dist/console-page');
  if (folder === undefined) throw new ServeError('not_found', NO_PAGE);
  await sendAsset(exchange, join(folder, name === '' ? 'index.html' : name), type, HEADERS);
  return true;
}
