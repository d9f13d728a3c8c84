import { bodyRoutes, type Operation, pathBelow, type Route, route, type Serve, serveLater } from '../../route.ts';

type Described = Omit<Operation, 'path' | 'tag'>;

const serveStoredResponse = serveLater(async () => (await import('./stored.ts')).serveStoredResponse);
const serveResponseCancel = serveLater(async () => (await import('./stored.ts')).serveResponseCancel);
const serveInputItems = serveLater(async () => (await import('./stored.ts')).serveInputItems);

const JSON_OR_EVENTS = ['application/json', 'text/event-stream'];

/** Returns the routes of the Responses API, at and below `path` (`DYN_HTTP_SVC_RESPONSES_PATH_ENV`). */
export function responsesRoutes(path: string): readonly Route[] {
  const below = pathBelow(path);
  const stored = `${below}/{id}`;
  const made = bodyRoutes('Responses');
  const loadResponses = async () => (await import('./serve-responses.ts')).responses;
  const loadInputTokens = async () => (await import('./serve-responses.ts')).inputTokens;
  const loadCompact = async () => (await import('./serve-responses.ts')).compact;
  const of = (at: string, access: Route['access'], serve: Serve, ...operations: readonly Described[]): Route =>
    route(
      at.replace('{id}', ':id{resp_[^/]+}'), // any other path below is not found
      access,
      serve,
      ...operations.map((each) => ({ path: at, tag: 'Responses' as const, ...each })),
    );
  return [
    made(
      path,
      loadResponses,
      'createResponse',
      'Answers items, and keeps the answer when asked; servers answer over WebSocket, too.',
      JSON_OR_EVENTS,
    ),
    made(`${below}/input_tokens`, loadInputTokens, 'countInputTokens', 'Estimates the tokens of items.'),
    made(`${below}/compact`, loadCompact, 'compactResponse', 'Sums a conversation up, to go on from.'),
    of(
      stored,
      'inference',
      serveStoredResponse,
      {
        method: 'get',
        id: 'getResponse',
        summary: 'A kept answer; with stream=true its events.',
        contentTypes: JSON_OR_EVENTS,
      },
      { method: 'delete', id: 'deleteResponse', summary: 'Forgets a kept answer.' },
    ),
    of(`${stored}/cancel`, 'inference', serveResponseCancel, {
      method: 'post',
      id: 'cancelResponse',
      summary: 'Ends an answer that is being made.',
    }),
    of(`${stored}/input_items`, 'inference', serveInputItems, {
      method: 'get',
      id: 'listInputItems',
      summary: 'What a kept answer was asked.',
    }),
  ];
}
