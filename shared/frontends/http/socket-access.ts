import { LIMITS, overLimit, ServeError } from '../../errors/index.ts';
import { requireService } from '../inference/dialect.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HostExchange } from './exchange/exchange.ts';
import { admit, requireHost } from './operators.ts';

/**
 * Lets in a connection that asks for a WebSocket. Each response on it is checked again, because keys end and budgets
 * count responses.
 * @throws ServeError as a request of the same route, and `insufficient_permissions` for a page that is not allowed
 */
export async function admitSocket(deps: HttpAppDeps, host: HostExchange): Promise<void> {
  requireHost(deps.settings, host);
  requireOrigin(deps.settings.corsOrigins, host);
  if (host.headerLines > LIMITS.header_lines.max) {
    throw overLimit('header_lines', `more than ${LIMITS.header_lines.max} header lines`);
  }
  await admit(deps, host, 'inference');
  requireService(deps);
}

/** Prefix of a key among the sub-protocols of a WebSocket: browsers cannot send `Authorization` with it. */
export const KEY_PROTOCOL = 'openai-insecure-api-key.';

/**
 * Checks the origin of a page. Browsers let every page open a WebSocket anywhere, but no page can send `Authorization`
 * with it.
 */
function requireOrigin(origins: readonly string[], host: HostExchange): void {
  const origin = host.header('origin');
  const showsItAsPage = host.header('sec-websocket-protocol')?.includes(KEY_PROTOCOL) === true;
  if (origin === undefined || (host.header('authorization') !== undefined && !showsItAsPage)) return;
  const own = host.header('host') ?? '';
  if (origin === `http://${own}` || origin === `https://${own}`) return;
  if (origins.includes('*') || origins.includes(origin)) return;
  const message = `Origin ${origin.slice(0, 255)} may not open a WebSocket: --cors-origin names the pages that may`;
  throw new ServeError('insufficient_permissions', message);
}
