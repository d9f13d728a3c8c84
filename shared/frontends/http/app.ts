import { type Context, Hono } from 'hono';
import { type Grant, OverBudget } from '../../access/index.ts';
import { LIMITS, logLevelOf, overLimit, ServeError, toServeError } from '../../errors/index.ts';
import { newRequestId, sendMessagesError } from './anthropic/wire.ts';
import type { HttpAppDeps } from './deps.ts';
import { alreadySent, type HostExchange, type HttpBindings, type HttpExchange } from './hosts/exchange.ts';
import { WebExchange } from './hosts/web-exchange.ts';
import { admit, refuseHost } from './operators.ts';
import { type Route, type Serve, shownId } from './route.ts';
import { routesOf } from './route-table.ts';
import { sendModelsError } from './routes/models.ts';
import { corsHeaders, ServedExchange, sendPreflight } from './served-exchange.ts';
import { sendError } from './sinks/send.ts';

export type HttpEnv = { Bindings: HttpBindings };

/**
 * The HTTP surface as one Hono app for every host. A host that has an exchange passes it as
 * `app.fetch(request, { exchange })` and gets `alreadySent()`; without one the app gives a `Response`.
 *
 * @example
 * const app = createHttpApp(deps);
 * const response = await app.fetch(new Request('http://localhost/v1/models'));
 */
export function createHttpApp(deps: HttpAppDeps): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  for (const each of routesOf(deps.settings)) addRoute(app, deps, each);
  app.notFound((context) => serveThrough(context, deps, 'open', serveNotFound));
  app.onError((error, context) =>
    serveThrough(context, deps, 'open', () => {
      throw error;
    }),
  );
  return app;
}

/** One handler for every method: two matching handlers would send each request through Hono's slower composed path. */
function addRoute(app: Hono<HttpEnv>, deps: HttpAppDeps, { pattern, allow, access, serve }: Route): void {
  const methods = allow.split(',');
  const refuseMethod: Serve = (_deps, exchange) => serveMethodNotAllowed(deps, exchange, allow);
  app.all(pattern, (context) => {
    const { method } = context.req.raw;
    return serveThrough(context, deps, access, methods.includes(method) ? serve : refuseMethod);
  });
}

/** Runs a handler on the host's exchange, or on one over the fetch request. */
function serveThrough(
  context: Context<HttpEnv>,
  deps: HttpAppDeps,
  access: Route['access'],
  serve: Serve,
): Response | Promise<Response> {
  const given = context.env?.exchange; // plain `app.fetch(request)` has no bindings at all
  if (given !== undefined) {
    run(deps, given, access, serve);
    return context.env.sent ?? alreadySent();
  }
  const exchange = new WebExchange(context.req.raw, context.env?.peer);
  run(deps, exchange, access, serve);
  return exchange.response;
}

function run(deps: HttpAppDeps, given: HostExchange, access: Route['access'], serve: Serve): void {
  const forPages = corsHeaders(given, deps.settings.corsOrigins);
  const exchange = new ServedExchange(given, deps.random, forPages, deps.metrics.limitReached);
  const foreign = refuseHost(deps.settings, given);
  if (foreign !== undefined) {
    refuse(deps, exchange, foreign);
    return;
  }
  if (forPages !== undefined && sendPreflight(exchange)) return;
  if (exchange.headerLines > LIMITS.header_lines.max) {
    refuse(deps, exchange, overLimit('header_lines', `more than ${LIMITS.header_lines.max} header lines`));
    return;
  }
  letIn(deps, given, exchange, access, (grant) => {
    exchange.grant = grant;
    handle(deps, exchange, serve);
  });
}

/** Calls `onGrant` at once where the caller's key is known, or none is asked for. */
function letIn(
  deps: HttpAppDeps,
  given: HostExchange,
  exchange: ServedExchange,
  access: Route['access'],
  onGrant: (grant: Grant) => void,
): void {
  const refuseEntry = (thrown: unknown): void => {
    const error = toServeError(thrown);
    const { requestId: x_request_id, path } = exchange;
    // Nothing of ours has failed, and strangers must not fill the log.
    deps.logger.debug('request is not let in', { x_request_id, path, code: error.code, reason: error.message });
    refuse(deps, exchange, error, error instanceof OverBudget ? error.headers : undefined);
  };
  let admitted: Grant | Promise<Grant>;
  try {
    admitted = admit(deps, given, typeof access === 'function' ? access(given.path) : access);
  } catch (thrown) {
    refuseEntry(thrown);
    return;
  }
  if (!(admitted instanceof Promise)) {
    onGrant(admitted);
    return;
  }
  admitted.then((grant) => {
    if (!given.sink.closed.aborted) onGrant(grant); // else nobody waits, and the body will not come
  }, refuseEntry);
}

function handle(deps: HttpAppDeps, exchange: HttpExchange, serve: Serve): void {
  const refuseThrown = (thrown: unknown): void => {
    const error = toServeError(thrown);
    deps.logger[logLevelOf(error.code)]('request handler failed', {
      x_request_id: exchange.requestId,
      path: exchange.path,
      error: error.cause ?? error,
    });
    refuse(deps, exchange, error);
  };
  try {
    serve(deps, exchange)?.catch(refuseThrown);
  } catch (thrown) {
    refuseThrown(thrown);
  }
}

function serveNotFound(deps: HttpAppDeps, exchange: HttpExchange): void {
  refuse(deps, exchange, new ServeError('not_found', `Route not found: ${exchange.method} ${shownId(exchange.path)}`));
}

function serveMethodNotAllowed(deps: HttpAppDeps, exchange: HttpExchange, allow: string): void {
  if (exchange.header('upgrade')?.toLowerCase() === 'websocket') {
    refuse(deps, exchange, webSocketRefusal(shownId(exchange.path)), { allow });
    return;
  }
  const error = new ServeError(
    'method_not_allowed',
    `Method ${exchange.method} is not allowed for ${shownId(exchange.path)}`,
  );
  refuse(deps, exchange, error, { allow });
}

/** 426 is how agents that try WebSocket first learn to go on over HTTP at once; after any other status they try again. */
function webSocketRefusal(path: string): ServeError {
  return new ServeError('websocket_not_supported', `${path} is served over HTTP, not over WebSocket`);
}

/** A failure that no handler told: in the envelope of the dialect whose path it is. */
function refuse(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  error: ServeError,
  headers?: Readonly<Record<string, string>>,
): void {
  const { anthropic, paths, overloadStatus } = deps.settings;
  const isMessages = exchange.path === paths.messages || exchange.path.startsWith(`${paths.messages}/`);
  if (anthropic.isEnabled && isMessages) {
    sendMessagesError(exchange, error, newRequestId(deps.random), headers);
  } else if (exchange.path === paths.models || exchange.path.startsWith(`${paths.models}/`)) {
    sendModelsError(deps, exchange, error, headers);
  } else sendError(exchange, error, overloadStatus, headers);
}
