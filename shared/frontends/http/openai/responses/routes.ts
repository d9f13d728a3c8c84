import { type Operation, type Route, route, serveLater } from '../../route.ts';

type Handler = keyof ReturnType<typeof import('./serve-responses.ts').responsesHandlers>;
type Described = Omit<Operation, 'path' | 'tag'>;

const JSON_OR_EVENTS = ['application/json', 'text/event-stream'];

/**
 * The routes of the Responses API, below `path`. Their handlers, which share what runs in this process, are loaded by the first request.
 * @param path `DYN_HTTP_SVC_RESPONSES_PATH_ENV`; a slash at its end does not count for what stands below
 */
export function responsesRoutes(path: string): readonly Route[] {
  const below = path.endsWith('/') ? path.slice(0, -1) : path;
  const handlers = once(async () => (await import('./serve-responses.ts')).responsesHandlers(below));
  const stored = `${below}/{id}`;
  const made = (
    at: string,
    handler: Handler,
    id: string,
    summary: string,
    body: string,
    more: Partial<Operation> = {},
  ) => of(at, 'generate', handler, { method: 'post', id, summary, body, ...more });
  const of = (at: string, access: Route['access'], handler: Handler, ...operations: readonly Described[]): Route =>
    route(
      at.replace('{id}', ':id{resp_[^/]+}'), // whatever else stands below the path is not found
      access,
      serveLater(async () => (await handlers())[handler]),
      ...operations.map((each) => ({ path: at, tag: 'Responses' as const, ...each })),
    );
  return [
    made(path, 'create', 'createResponse', 'Answers items, and keeps the answer when asked.', 'ResponseRequest', {
      contentTypes: JSON_OR_EVENTS,
    }),
    made(
      `${below}/input_tokens`,
      'countInput',
      'countInputTokens',
      'Estimates the tokens of items.',
      'InputTokensRequest',
    ),
    made(`${below}/compact`, 'compact', 'compactResponse', 'Sums a conversation up, to go on from.', 'CompactRequest'),
    of(
      stored,
      'inference',
      'stored',
      {
        method: 'get',
        id: 'getResponse',
        summary: 'A kept answer; with stream=true its events.',
        contentTypes: JSON_OR_EVENTS,
      },
      { method: 'delete', id: 'deleteResponse', summary: 'Forgets a kept answer.' },
    ),
    of(`${stored}/cancel`, 'inference', 'cancel', {
      method: 'post',
      id: 'cancelResponse',
      summary: 'Ends an answer that is being made.',
    }),
    of(`${stored}/input_items`, 'inference', 'items', {
      method: 'get',
      id: 'listInputItems',
      summary: 'What a kept answer was asked.',
    }),
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
