import { withDeadline } from '../../../concurrency/index.ts';
import type { OpenConsole, ViewerSink } from '../../../console/index.ts';
import { LIMITS, overLimit, reasonOf, ServeError, toServeError } from '../../../errors/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { admit } from '../operators.ts';
import { CONSOLE_PATH, decodePath, shownId } from '../route.ts';
import { explanationOf } from '../routes/explained.ts';
import { EVENT_STREAM, sendJson, sendText } from '../sinks/send.ts';
import { readViewerQuery } from './viewer-query.ts';

const NO_CACHE = { 'cache-control': 'no-store' };
const EVENTS = { ...EVENT_STREAM, ...NO_CACHE };

/** Interval at which the rights of a viewer are checked again, in milliseconds. */
const RECHECK_MS = 60_000;

/** `GET /console/api`: sends the view that is asked for, or follows it if the client takes events. */
export async function serveConsole(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const { viewers, planner } = requireConsole(deps);
  const asked = readViewerQuery(exchange.query);
  const follows = exchange.method === 'GET' && exchange.header('accept')?.includes('text/event-stream') === true;
  if ('planner' in asked) {
    const planners = await planner();
    if (follows) follow(deps, exchange, planners.size, (sink) => planners.add(asked.planner, sink));
    else sendText(exchange, 200, 'application/json', await planners.now(asked.planner), NO_CACHE);
    return;
  }
  const { query, before } = asked;
  if (follows && before === undefined) follow(deps, exchange, viewers.size, (sink) => viewers.add(query, sink));
  else sendText(exchange, 200, 'application/json', viewers.now(query, before), NO_CACHE);
}

/**
 * Sends events until the client leaves, or the process drains.
 * @param size number of viewers of the same kind
 * @param add adds a viewer, and returns a function that removes it
 * @throws ServeError `server_overloaded`
 */
function follow(deps: HttpAppDeps, exchange: HttpExchange, size: number, add: (sink: ViewerSink) => () => void): void {
  const { lifecycle } = deps;
  const { sink } = exchange;
  if (size >= LIMITS.console_viewers.max) {
    throw overLimit('console_viewers', `The console has ${LIMITS.console_viewers.max} viewers already`, {
      retryAfterMs: 1000,
    });
  }
  if (!lifecycle.isLive) throw new ServeError('service_unavailable', 'Service is shutting down');
  exchange.head(200, EVENTS);
  const leave = add({
    send: (text) => sink.write(text),
    isBehind: () => sink.isBlocked(),
    breakOff: () => sink.breakOff(new Error('The viewer reads nothing')),
  });
  const checks = deps.clock.every(RECHECK_MS, () => void endUnlessAdmitted(deps, exchange, end));
  const unfollow = lifecycle.follow(() => {
    if (!lifecycle.isLive) end();
  });
  const stop = (): void => {
    leave();
    checks.cancel();
    unfollow();
    exchange.deadline?.removeEventListener('abort', end);
  };
  function end(): void {
    stop();
    sink.end();
  }
  if (sink.closed.aborted) stop(); // the client left while the code of this route was loaded
  sink.closed.addEventListener('abort', stop, { once: true });
  exchange.deadline?.addEventListener('abort', end, { once: true });
  sink.flush();
}

/** Ends the events of a client that may no longer have them: a key may be revoked, or expire. Never rejects. */
async function endUnlessAdmitted(deps: HttpAppDeps, exchange: HttpExchange, end: () => void): Promise<void> {
  try {
    await admit(deps, exchange, 'admin');
  } catch (thrown) {
    const { status } = toServeError(thrown);
    if (status === 401 || status === 403) end(); // otherwise keys cannot be looked up now, and the next check decides
  }
}

/** `GET /console/api/requests/{id}`: sends what happened to one of the last requests, and its routing decision. */
export async function serveConsoleRequest(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const { log } = requireConsole(deps);
  const id = decodePath(exchange.path.slice(`${CONSOLE_PATH}/api/requests/`.length));
  const request = log.find(id);
  if (request === undefined) {
    throw new ServeError('not_found', `The console does not remember a request ${shownId(id)}: it keeps the last ones`);
  }
  sendJson(
    exchange,
    200,
    { ...request.detail(), ...(await decisionOf(deps, request.id)), ...log.textOf(request) },
    NO_CACHE,
  );
}

/** How long the index may take to be walked, in milliseconds. */
const WORKER_MS_MAX = 10_000;

/** `GET /console/api/workers/{id}`: sends a worker and what it has cached. */
export async function serveConsoleWorker(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const console = requireConsole(deps);
  const id = decodePath(exchange.path.slice(`${CONSOLE_PATH}/api/workers/`.length));
  const within = { clock: deps.clock, timeoutMs: WORKER_MS_MAX, signal: exchange.sink.closed };
  const detail = await withDeadline(within, (signal) => console.worker(id, signal)).catch((cause: unknown) => {
    throw new ServeError('service_unavailable', `The worker's cache cannot be read: ${reasonOf(cause)}`, { cause });
  });
  if (detail === undefined) throw new ServeError('not_found', `No worker ${shownId(id)} serves a model here`);
  sendJson(exchange, 200, detail, NO_CACHE);
}

/** How long discovery may take to note an order, in milliseconds. */
const ORDER_MS_MAX = 10_000;

/** `POST /console/api/drain/{id}`: orders a worker to drain, which it begins at the next renewal of its lease. */
export async function serveDrain(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const console = requireConsole(deps);
  const id = decodePath(exchange.path.slice(`${CONSOLE_PATH}/api/drain/`.length));
  const within = { clock: deps.clock, timeoutMs: ORDER_MS_MAX, signal: exchange.sink.closed };
  const ordered = await withDeadline(within, (signal) => console.drain(id, signal)).catch((cause: unknown) => {
    throw new ServeError('service_unavailable', `The order could not be given: ${reasonOf(cause)}`, { cause });
  });
  if (ordered.length === 0) throw new ServeError('not_found', `No worker ${shownId(id)} is registered`);
  deps.logger.info('worker is ordered to drain', { worker_id: id });
  sendJson(exchange, 200, { ordered }, NO_CACHE);
}

/** Returns the routing decision about a request, or why there is none. */
async function decisionOf(
  deps: HttpAppDeps,
  id: string | undefined,
): Promise<{ readonly decision: object | null; readonly no_decision: string | null }> {
  if (id === undefined) return { decision: null, no_decision: 'The request ended before its body was read.' };
  try {
    const decision = await explanationOf(deps, id);
    if (decision !== undefined) return { decision, no_decision: null };
    return { decision: null, no_decision: 'The router keeps no decision about it: only the last ones are kept.' };
  } catch (thrown) {
    return { decision: null, no_decision: toServeError(thrown).message }; // the rest of the request can be shown
  }
}

function requireConsole({ console }: HttpAppDeps): OpenConsole {
  if (console !== undefined) return console;
  throw new ServeError('not_implemented', 'This process has no console');
}
