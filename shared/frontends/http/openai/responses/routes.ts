import { type Operation, type Route, route, serveLater } from '../../route.ts';

const JSON_OR_EVENTS = ['application/json', 'text/event-stream'];

/**
 * The routes of the Responses API, below `path`. Their handlers, which share what runs in this process, are loaded by the first request.
 * @param path `DYN_HTTP_SVC_RESPONSES_PATH_ENV`; a slash at its end does not count for what stands below
 */
export function responsesRoutes(path: string): readonly Route[] {
  const below = path.endsWith('/') ? path.slice(0, -1) : path;
  const handlers = once(async () => (await import('./serve-responses.ts')).responsesHandlers(below));
  /** Ids of other APIs' making are no routes: whatever else stands below the path is not found. */
  const patternOf = (documented: string): string => documented.replace('{id}', ':id{resp_[^/]+}');
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
      'generate',
      serveLater(async () => (await handlers()).create),
      described(path, 'post', 'createResponse', 'Answers items, and keeps the answer when asked.', {
        body: 'ResponseRequest',
        contentTypes: JSON_OR_EVENTS,
      }),
    ),
    route(
      count,
      'generate',
      serveLater(async () => (await handlers()).countInput),
      described(count, 'post', 'countInputTokens', 'Estimates the tokens of items.', { body: 'InputTokensRequest' }),
    ),
    route(
      compact,
      'generate',
      serveLater(async () => (await handlers()).compact),
      described(compact, 'post', 'compactResponse', 'Sums a conversation up, to go on from.', {
        body: 'CompactRequest',
      }),
    ),
    route(
      patternOf(stored),
      'inference',
      serveLater(async () => (await handlers()).stored),
      described(stored, 'get', 'getResponse', 'A kept answer; with stream=true its events.', {
        contentTypes: JSON_OR_EVENTS,
      }),
      described(stored, 'delete', 'deleteResponse', 'Forgets a kept answer.'),
    ),
    route(
      patternOf(cancel),
      'inference',
      serveLater(async () => (await handlers()).cancel),
      described(cancel, 'post', 'cancelResponse', 'Ends an answer that is being made.'),
    ),
    route(
      patternOf(items),
      'inference',
      serveLater(async () => (await handlers()).items),
      described(items, 'get', 'listInputItems', 'What a kept answer was asked.'),
    ),
  ];
}

/** `make`, called by the first who asks; again when it failed. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((thrown: unknown) => {
      made = undefined;
      throw thrown;
    });
    return made;
  };
}
