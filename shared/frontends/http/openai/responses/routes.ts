import type { HttpExchange } from '../../hosts/exchange.ts';
import { type Operation, type Route, route } from '../../route.ts';
import { serveCompact } from './compact.ts';
import { serveInputTokens, serveResponses } from './serve-responses.ts';
import { RunningResponses, serveInputItems, serveResponseCancel, serveStoredResponse } from './stored.ts';

const JSON_OR_EVENTS = ['application/json', 'text/event-stream'];

/**
 * The routes of the Responses API, below `path`. They share what runs in this process.
 * @param path `DYN_HTTP_SVC_RESPONSES_PATH_ENV`; a slash at its end does not count for what stands below
 */
export function responsesRoutes(path: string): readonly Route[] {
  const running = new RunningResponses();
  const below = path.endsWith('/') ? path.slice(0, -1) : path;
  /** Ids of other APIs' making are no routes: whatever else stands below the path is not found. */
  const patternOf = (documented: string): string => documented.replace('{id}', ':id{resp_[^/]+}');
  /** The id in a path that matched: what stands between the API's path and the next slash. */
  const idOf = (exchange: HttpExchange): string => exchange.path.slice(below.length + 1).split('/')[0]!;
  const described = (
    at: string,
    method: Operation['method'],
    id: string,
    summary: string,
    more: Partial<Operation> = {},
  ): Operation => ({ path: at, method, id, tag: 'Responses', summary, ...more });
  const count = `${below}/input_tokens`;
  const compact = `${below}/compact`;
  const stored = `${below}/{id}`;
  const cancel = `${stored}/cancel`;
  const items = `${stored}/input_items`;
  return [
    route(
      path,
      serveResponses(running),
      described(path, 'post', 'createResponse', 'Answers items, and keeps the answer when asked.', {
        body: 'ResponseRequest',
        contentTypes: JSON_OR_EVENTS,
      }),
    ),
    route(
      count,
      serveInputTokens,
      described(count, 'post', 'countInputTokens', 'Estimates the tokens of items.', { body: 'InputTokensRequest' }),
    ),
    route(
      compact,
      serveCompact,
      described(compact, 'post', 'compactResponse', 'Sums a conversation up, to go on from.', {
        body: 'CompactRequest',
      }),
    ),
    route(
      patternOf(stored),
      (deps, exchange) => serveStoredResponse(deps, exchange, idOf(exchange), running),
      described(stored, 'get', 'getResponse', 'A kept answer; with stream=true its events.', {
        contentTypes: JSON_OR_EVENTS,
      }),
      described(stored, 'delete', 'deleteResponse', 'Forgets a kept answer.'),
    ),
    route(
      patternOf(cancel),
      (deps, exchange) => serveResponseCancel(deps, exchange, idOf(exchange), running),
      described(cancel, 'post', 'cancelResponse', 'Ends an answer that is being made.'),
    ),
    route(
      patternOf(items),
      (deps, exchange) => serveInputItems(deps, exchange, idOf(exchange)),
      described(items, 'get', 'listInputItems', 'What a kept answer was asked.'),
    ),
  ];
}
