import type { HostExchange, HttpExchange } from './hosts/exchange.ts';

const ANY_ORIGIN = '*';
/** What scripts of a page may read beside what browsers always let them. */
const EXPOSED = 'x-request-id, retry-after';
/** How long browsers may remember the answer to a preflight. */
const PREFLIGHT_SECS = 86_400;

/**
 * The headers that let a web page of another origin read the answer to its request. Keys are sent as headers, never as
 * cookies, so nothing is said of credentials.
 * @param origins as configured (`--cors-origin`); `*` = every origin
 * @returns undefined for requests of no page, or of a page that may not
 */
export function corsHeaders(
  exchange: HostExchange,
  origins: readonly string[],
): Readonly<Record<string, string>> | undefined {
  const allowed = origins.length === 0 ? undefined : allowedOrigin(exchange, origins);
  if (allowed === undefined) return undefined;
  return {
    'access-control-allow-origin': allowed,
    'access-control-expose-headers': EXPOSED,
    ...(allowed === ANY_ORIGIN ? {} : { vary: 'origin' }),
  };
}

/** Answers the browser of a page that may, where it asks before it sends; false when the request is no such question. */
export function answerPreflight(exchange: HttpExchange): boolean {
  if (exchange.method !== 'OPTIONS' || exchange.header('access-control-request-method') === undefined) return false;
  exchange.head(204, {
    'access-control-allow-methods': 'GET, POST, DELETE',
    'access-control-allow-headers': exchange.header('access-control-request-headers') ?? '*',
    'access-control-max-age': String(PREFLIGHT_SECS),
  });
  exchange.sink.end();
  return true;
}

function allowedOrigin(exchange: HostExchange, origins: readonly string[]): string | undefined {
  const origin = exchange.header('origin');
  if (origin === undefined) return undefined;
  if (origins.includes(ANY_ORIGIN)) return ANY_ORIGIN;
  return origins.includes(origin) ? origin : undefined;
}
