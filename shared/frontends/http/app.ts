import { type Context, Hono } from 'hono';
import { LIMITS, logLevelOf, overLimit, ServeError, toServeError } from '../../errors/index.ts';
import { answerError } from './answers/answer.ts';
import { answerMessagesError, newRequestId } from './anthropic/errors.ts';
import { serveCountTokens, serveMessages } from './anthropic/messages.ts';
import { answerModelsError } from './anthropic/models.ts';
import { answerPreflight, corsHeaders } from './cors.ts';
import { shownId } from './decode-path.ts';
import type { HttpAppDeps } from './deps.ts';
import { alreadyAnswered, type HostExchange, type HttpBindings, type HttpExchange } from './hosts/exchange.ts';
import { WebExchange } from './hosts/web-exchange.ts';
import { IMAGE_EDITS_PATH, IMAGES_PATH, VIDEO_PATHS } from './media-paths.ts';
import { serveChat } from './openai/chat.ts';
import { serveCompletions } from './openai/completions.ts';
import { serveEmbeddings } from './openai/embeddings.ts';
import { serveImageEdits, serveImages } from './openai/images.ts';
import { responsesRoutes } from './openai/responses/routes.ts';
import { serveMotionJpeg, serveVideos } from './openai/videos.ts';
import { DOCS_PATH, redirectToDocs, serveDocs } from './openapi/serve-docs.ts';
import { OPENAPI_PATH, serveOpenApi } from './openapi/serve-openapi.ts';
import { refuseHost, requireOperator } from './operators.ts';
import { BUSY_THRESHOLD_PATH, serveBusyThreshold } from './routes/busy-threshold.ts';
import { CANCEL_PATH, serveCancel } from './routes/cancel.ts';
import { CLEAR_KV_BLOCKS_PATH, serveClearKvBlocks } from './routes/clear-kv-blocks.ts';
import { EXPLAIN_PATH, serveExplain, serveExplained } from './routes/explain-routing.ts';
import { serveHealth, serveLive } from './routes/health.ts';
import { serveMetrics } from './routes/metrics.ts';
import { serveModel, serveModelList } from './routes/models.ts';
import { ROOT_PATH, serveRoot } from './routes/root.ts';
import { ServedExchange } from './served-exchange.ts';

export type HttpEnv = { Bindings: HttpBindings };
type Serve = (deps: HttpAppDeps, exchange: HttpExchange) => void | Promise<void>;

/**
 * The HTTP surface as one Hono app for every host. A host that has an exchange passes it as
 * `app.fetch(request, { exchange })` and gets `alreadyAnswered`; without one the app answers with a `Response`.
 *
 * @example
 * const app = createHttpApp(deps);
 * const response = await app.fetch(new Request('http://localhost/v1/models'));
 */
export function createHttpApp(deps: HttpAppDeps): Hono<HttpEnv> {
  const { paths } = deps.settings;
  const app = new Hono<HttpEnv>();
  const post = (path: string, serve: Serve): void => addRoute(app, deps, path, 'POST', serve);
  const get = (path: string, serve: Serve): void => addRoute(app, deps, path, 'GET,HEAD', serve);
  if (deps.settings.servesClients ?? true) addClientRoutes(app, deps);
  if (deps.settings.hasAdminRoutes) {
    addRoute(app, deps, BUSY_THRESHOLD_PATH, 'POST,GET,HEAD', forOperators(serveBusyThreshold));
    post(CLEAR_KV_BLOCKS_PATH, forOperators(serveClearKvBlocks));
    post(EXPLAIN_PATH, forOperators(serveExplain));
    get(`${EXPLAIN_PATH}/:id{.+}`, forOperators(serveExplained));
  }
  get(ROOT_PATH, serveRoot);
  get(paths.models, serveModelList);
  get(`${paths.models}/:id{.+}`, serveModel);
  get(paths.health, serveHealth);
  get(paths.live, serveLive);
  get(paths.metrics, serveMetrics);
  get(OPENAPI_PATH, serveOpenApi);
  get(DOCS_PATH, redirectToDocs);
  get(`${DOCS_PATH}/`, serveDocs);
  get(`${DOCS_PATH}/:file`, serveDocs);
  app.notFound((context) => answerThrough(context, deps, serveNotFound));
  app.onError((error, context) =>
    answerThrough(context, deps, () => {
      throw error;
    }),
  );
  return app;
}

/** What clients ask for; the other routes are for whoever runs the process. */
function addClientRoutes(app: Hono<HttpEnv>, deps: HttpAppDeps): void {
  const { paths, anthropic } = deps.settings;
  const post = (path: string, serve: Serve): void => addRoute(app, deps, path, 'POST', serve);
  post(paths.chat, serveChat);
  post(paths.completions, serveCompletions);
  post(paths.embeddings, serveEmbeddings);
  for (const { path, allow, serve } of responsesRoutes(paths.responses)) addRoute(app, deps, path, allow, serve);
  post(IMAGES_PATH, serveImages);
  post(IMAGE_EDITS_PATH, serveImageEdits);
  for (const path of VIDEO_PATHS) {
    post(path, serveVideos);
    post(`${path}/stream`, serveMotionJpeg);
  }
  if (anthropic.isEnabled) {
    post(paths.messages, serveMessages);
    post(`${paths.messages}/count_tokens`, serveCountTokens);
  }
  post(`${CANCEL_PATH}/:id{.+}`, serveCancel);
}

/** One handler for every method: two matching handlers would send each request through Hono's slower composed path. */
function addRoute(app: Hono<HttpEnv>, deps: HttpAppDeps, path: string, allow: string, serve: Serve): void {
  const methods = allow.split(',');
  const refuseMethod: Serve = (_deps, exchange) => serveMethodNotAllowed(deps, exchange, allow);
  app.all(path, (context) => {
    const { method } = context.req.raw;
    return answerThrough(context, deps, methods.includes(method) ? serve : refuseMethod);
  });
}

/** Of the fleet rather than of a client's request: for whoever runs it. */
function forOperators(serve: Serve): Serve {
  return (deps, exchange) => {
    requireOperator(deps, exchange);
    return serve(deps, exchange);
  };
}

/** Runs a handler on the host's exchange, or on one over the fetch request. */
function answerThrough(context: Context<HttpEnv>, deps: HttpAppDeps, serve: Serve): Response | Promise<Response> {
  const given = context.env?.exchange; // plain `app.fetch(request)` has no bindings at all
  if (given !== undefined) {
    run(deps, given, serve);
    return alreadyAnswered;
  }
  const exchange = new WebExchange(context.req.raw, context.env?.peer);
  run(deps, exchange, serve);
  return exchange.response;
}

function run(deps: HttpAppDeps, given: HostExchange, serve: Serve): void {
  const forPages = corsHeaders(given, deps.settings.corsOrigins);
  const exchange = new ServedExchange(given, deps.random, forPages ?? {}, deps.metrics.limitReached);
  const foreign = refuseHost(deps.settings, given);
  if (foreign !== undefined) {
    refuse(deps, exchange, foreign);
    return;
  }
  if (forPages !== undefined && answerPreflight(exchange)) return;
  if (exchange.headerLines > LIMITS.header_lines.max) {
    refuse(deps, exchange, overLimit('header_lines', `more than ${LIMITS.header_lines.max} header lines`));
    return;
  }
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
    answerMessagesError(exchange, error, newRequestId(deps.random), headers);
  } else if (exchange.path === paths.models || exchange.path.startsWith(`${paths.models}/`)) {
    answerModelsError(deps, exchange, error, headers);
  } else answerError(exchange, error, overloadStatus, headers);
}
