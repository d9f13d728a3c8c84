import { CONSOLE_PATH, type Route, route, serveLater } from '../route.ts';
import { redirectToConsole, serveConsolePage } from './serve-page.ts';
import { VIEWER_PARAMETERS } from './viewer-query.ts';

/* Code that answers is loaded by the first request, as in the table of routes. */
const serveConsole = serveLater(async () => (await import('./api.ts')).serveConsole);
const serveConsoleRequest = serveLater(async () => (await import('./api.ts')).serveConsoleRequest);
const serveConsoleWorker = serveLater(async () => (await import('./api.ts')).serveConsoleWorker);
const serveDrain = serveLater(async () => (await import('./api.ts')).serveDrain);
const loadWhatIf = async () => (await import('./what-if.ts')).whatIf;
const loadKeys = async () => (await import('./keys.ts')).keys;
const loadKey = async () => (await import('./keys.ts')).key;
const loadLimits = async () => (await import('./keys.ts')).limitsBody;
const loadAnswers = () => import('./answers.ts');

/** Returns the routes of the console's data, which are for operators. */
export function consoleRoutes(): readonly Route[] {
  const shared = { method: 'get', tag: 'Operations' } as const;
  return [
    route(`${CONSOLE_PATH}/api`, 'admin', serveConsole, {
      ...shared,
      id: 'followConsole',
      summary: 'What the console shows: as it is now, or with Accept: text/event-stream also what changes.',
      query: VIEWER_PARAMETERS,
      contentTypes: ['application/json', 'text/event-stream'],
      answer: async () => (await loadAnswers()).VIEWS,
      codes: ['invalid_value', 'not_implemented', 'server_overloaded', 'service_unavailable'],
    }),
    route(`${CONSOLE_PATH}/api/requests/{id}`, 'admin', serveConsoleRequest, {
      ...shared,
      id: 'getConsoleRequest',
      summary: 'One of the last requests: its stages, its workers and its routing decision.',
      answer: async () => (await loadAnswers()).REQUEST,
      codes: ['not_found', 'not_implemented'],
    }),
    route(`${CONSOLE_PATH}/api/workers/{id}`, 'admin', serveConsoleWorker, {
      ...shared,
      id: 'getConsoleWorker',
      summary: 'One worker, and what it has cached as far as the router knows: numbers and hashes, no text of prompts.',
      answer: async () => (await loadAnswers()).WORKER,
      codes: ['not_found', 'not_implemented', 'service_unavailable'],
    }),
    route(`${CONSOLE_PATH}/api/drain/{id}`, 'admin', serveDrain, {
      tag: 'Operations',
      method: 'post',
      id: 'drainWorker',
      summary: 'Orders a worker to drain: it takes no new requests, lets its own end or move, and ends.',
      answer: async () => (await loadAnswers()).DRAIN,
      codes: ['not_found', 'not_implemented', 'service_unavailable'],
    }),
    route(
      `${CONSOLE_PATH}/api/what-if`,
      'admin',
      serveLater(async () => (await loadWhatIf()).serve),
      {
        tag: 'Operations',
        method: 'post',
        id: 'askPlanner',
        summary: 'What the law of a planner would decide now with other bounds. It changes nothing.',
        bodies: [async () => (await loadWhatIf()).body],
        answer: async () => (await loadAnswers()).WHAT_IF,
        codes: [
          'invalid_value',
          'not_found',
          'not_implemented',
          'request_too_large',
          'service_unavailable',
          'unsupported_media_type',
        ],
      },
    ),
    ...keyRoutes(),
  ];
}

/** Returns the routes that manage API keys. They need a proof even on this machine, because they give rights away. */
function keyRoutes(): readonly Route[] {
  const tag = 'Operations';
  const path = `${CONSOLE_PATH}/api/keys`;
  const reads = ['invalid_value', 'request_too_large', 'unsupported_media_type'] as const;
  const codes = ['invalid_api_key', 'insufficient_permissions', 'not_implemented', 'service_unavailable'] as const;
  return [
    route(
      path,
      'proof',
      serveLater(async () => (await loadKeys()).serve),
      {
        tag,
        method: 'get',
        id: 'listKeys',
        summary: 'API keys, without their secrets.',
        answer: async () => (await loadAnswers()).KEYS,
        codes,
      },
      {
        tag,
        method: 'post',
        id: 'createKey',
        summary: 'Creates an API key, and shows it this once.',
        bodies: [async () => (await loadKeys()).body],
        answer: async () => (await loadAnswers()).ISSUED_KEY,
        codes: [...reads, ...codes],
      },
    ),
    route(
      `${path}/{id}`,
      'proof',
      serveLater(async () => (await loadKey()).serve),
      {
        tag,
        method: 'post',
        id: 'rotateKey',
        summary: 'Gives an API key another secret, and shows it this once. The old one stays valid for a while.',
        bodies: [async () => (await loadKey()).body],
        answer: async () => (await loadAnswers()).ISSUED_KEY,
        codes: [...reads, ...codes, 'not_found'],
      },
      {
        tag,
        method: 'patch',
        id: 'limitKey',
        summary: 'Changes limits of an API key; null takes a limit away, and limits that are not named stay.',
        bodies: [loadLimits],
        answer: async () => (await loadAnswers()).KEY,
        codes: [...reads, ...codes, 'not_found'],
      },
      {
        tag,
        method: 'delete',
        id: 'revokeKey',
        summary: 'Ends an API key.',
        answer: async () => (await loadAnswers()).KEY,
        codes: [...codes, 'not_found'],
      },
    ),
  ];
}

/** Returns the routes of the console's page. It has no data, so it is open: a browser cannot send a key with a link. */
export function consolePages(): readonly Route[] {
  return [
    route(CONSOLE_PATH, 'open', redirectToConsole),
    route(`${CONSOLE_PATH}/`, 'open', serveConsolePage),
    route(`${CONSOLE_PATH}/:file`, 'open', serveConsolePage),
  ];
}
