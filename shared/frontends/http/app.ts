import { type Context, Hono } from 'hono';
import { ANYBODY, type Grant, OverBudget } from '../../access/index.ts';
import type { Random } from '../../clock/index.ts';
import { codeRow, LIMITS, type LimitName, overLimit, ServeError, toServeError } from '../../errors/index.ts';
import { clientRequestId, type TransportNames } from '../inference/index.ts';
import { newRequestId, sendMessagesError } from './anthropic/wire.ts';
import type { HttpAppDeps } from './deps.ts';
import type { BodyIntake } from './hosts/body-intake.ts';
import {
  alreadySent,
  type FrameSink,
  type HostExchange,
  type HttpBindings,
  type HttpExchange,
} from './hosts/exchange.ts';
import { WebExchange } from './hosts/web-exchange.ts';
import { admit, refuseHost } from './operators.ts';
import { type Route, type Serve, shownId } from './route.ts';
import { routesOf } from './route-table.ts';
import { sendModelsError } from './routes/models.ts';
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
    deps.logger[codeRow(error.code).level]('request handler failed', {
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

type Headers = Readonly<Record<string, string>>;

const HTTP: TransportNames = {
  spanName: 'http-request',
  statusAttribute: 'http.response.status_code',
  okStatus: 200,
  goneStatus: 499,
};

/** A host's exchange with what every response carries: its id, and what pages of other origins have to be told. */
class ServedExchange implements HttpExchange {
  readonly transport = HTTP;
  readonly sink: FrameSink;
  readonly deadline?: AbortSignal;
  readonly requestId: string;
  readonly madeRequestId: string | undefined;
  grant: Grant = ANYBODY;
  readonly #host: HostExchange;
  readonly #clientRequestId: string | undefined;
  readonly #forPages: Headers | undefined;
  readonly #onLimit: (limit: LimitName) => void;
  #failure: ServeError | undefined;

  /**
   * @param forPages headers of every response to a web page of another origin; undefined = it comes from none
   * @param onLimit hears of a limit that the request goes beyond
   */
  constructor(
    host: HostExchange,
    random: Pick<Random, 'uuid'>,
    forPages: Headers | undefined,
    onLimit: (limit: LimitName) => void,
  ) {
    this.#host = host;
    this.#forPages = forPages;
    this.#onLimit = onLimit;
    this.sink = host.sink;
    if (host.deadline !== undefined) this.deadline = host.deadline;
    const given = clientRequestId(host.header('x-request-id'));
    this.#clientRequestId = given;
    this.requestId = given ?? random.uuid();
    this.madeRequestId = given === undefined ? this.requestId : undefined;
  }

  get method(): string {
    return this.#host.method;
  }

  get path(): string {
    return this.#host.path;
  }

  get query(): string {
    return this.#host.query;
  }

  get peer(): string | undefined {
    return this.#host.peer;
  }

  get headerLines(): number {
    return this.#host.headerLines;
  }

  spanAttributes(): Readonly<Record<string, string>> {
    return { method: this.method, uri: this.path };
  }

  headerNames(): readonly string[] {
    return this.#host.headerNames();
  }

  /** An `x-request-id` that is none counts as absent. */
  header(name: string): string | undefined {
    return name === 'x-request-id' ? this.#clientRequestId : this.#host.header(name);
  }

  readBody(intake: BodyIntake): Promise<void> {
    return this.#host.readBody(intake);
  }

  failed(error: ServeError): void {
    if (error === this.#failure) return;
    this.#failure = error;
    if (error.limit !== undefined) this.#onLimit(error.limit);
  }

  head(status: number, headers: Headers): void {
    // A refusal has its own figures of the budget.
    const all = { ...this.grant.headers(), ...headers, 'x-request-id': this.requestId };
    this.sink.head(status, this.#forPages === undefined ? all : { ...all, ...this.#forPages });
  }
}

const ANY_ORIGIN = '*';
/** What scripts of a page may read beside what browsers always let them. */
const EXPOSED = [
  'x-request-id',
  'request-id', // the name of the Messages API
  'retry-after',
  ...['limit', 'remaining', 'reset'].flatMap((what) => [`x-ratelimit-${what}-requests`, `x-ratelimit-${what}-tokens`]),
].join(', ');
/** How long browsers may remember the response to a preflight. */
const PREFLIGHT_SECS = 86_400;

/**
 * The headers that let a web page of another origin read the response to its request. Keys are sent as headers, never as
 * cookies, so nothing is said of credentials.
 * @param origins as configured (`--cors-origin`); `*` = every origin
 * @returns undefined for requests of no page, or of a page that may not
 */
function corsHeaders(exchange: HostExchange, origins: readonly string[]): Readonly<Record<string, string>> | undefined {
  const allowed = origins.length === 0 ? undefined : allowedOrigin(exchange, origins);
  if (allowed === undefined) return undefined;
  return {
    'access-control-allow-origin': allowed,
    'access-control-expose-headers': EXPOSED,
    ...(allowed === ANY_ORIGIN ? {} : { vary: 'origin' }),
  };
}

/** Responds to the browser of a page that may, where it asks before it sends; false when the request is no such question. */
function sendPreflight(exchange: HttpExchange): boolean {
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
