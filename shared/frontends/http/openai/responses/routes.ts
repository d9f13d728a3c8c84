import type { HttpAppDeps } from '../../deps.ts';
import type { HttpExchange } from '../../hosts/exchange.ts';
import { RunningResponses } from './running-responses.ts';
import { serveCompact } from './serve-compact.ts';
import { serveInputTokens, serveResponses } from './serve-responses.ts';
import { serveInputItems, serveResponseCancel, serveStoredResponse } from './serve-stored.ts';

/** One route of the Responses API. */
export interface ResponsesRoute {
  /** Hono pattern. */
  readonly path: string;
  /** As the `allow` header says it. */
  readonly allow: string;
  readonly serve: (deps: HttpAppDeps, exchange: HttpExchange) => Promise<void>;
}

/** Ids of other APIs' making are no routes: whatever else stands below the path is not found. */
const ID = ':id{resp_[^/]+}';

/**
 * The routes of the Responses API, below `path`. They share what runs in this process.
 * @param path `DYN_HTTP_SVC_RESPONSES_PATH_ENV`; a slash at its end does not count for what stands below
 */
export function responsesRoutes(path: string): readonly ResponsesRoute[] {
  const running = new RunningResponses();
  const below = path.endsWith('/') ? path.slice(0, -1) : path;
  /** The id in a path that matched: what stands between the API's path and the next slash. */
  const idOf = (exchange: HttpExchange): string => exchange.path.slice(below.length + 1).split('/')[0]!;
  return [
    { path, allow: 'POST', serve: (deps, exchange) => serveResponses(deps, exchange, running) },
    { path: `${below}/input_tokens`, allow: 'POST', serve: serveInputTokens },
    { path: `${below}/compact`, allow: 'POST', serve: serveCompact },
    {
      path: `${below}/${ID}`,
      allow: 'GET,HEAD,DELETE',
      serve: (deps, exchange) => serveStoredResponse(deps, exchange, idOf(exchange), running),
    },
    {
      path: `${below}/${ID}/cancel`,
      allow: 'POST',
      serve: (deps, exchange) => serveResponseCancel(deps, exchange, idOf(exchange), running),
    },
    {
      path: `${below}/${ID}/input_items`,
      allow: 'GET,HEAD',
      serve: (deps, exchange) => serveInputItems(deps, exchange, idOf(exchange)),
    },
  ];
}
