import { RegExpRouter } from 'hono/router/reg-exp-router';
import { SmartRouter } from 'hono/router/smart-router';
import { TrieRouter } from 'hono/router/trie-router';
import { getPath } from 'hono/utils/url';
import { ANYBODY, type Grant, OverBudget } from '../../access/index.ts';
import { codeRow, LIMITS, type LimitName, overLimit, ServeError, toServeError } from '../../errors/index.ts';
import { createFetchHandler } from '../fetch/fetch-handler.ts';
import { type ByteBudget, clientRequestId, type TransportNames } from '../inference/deps.ts';
import { newRequestId, sendMessagesError } from './anthropic/wire.ts';
import type { HttpAppDeps } from './deps.ts';
import type { BodyIntake } from './exchange/body-intake.ts';
import type { FrameSink, HostExchange, HttpExchange, ResponseMemory } from './exchange/exchange.ts';
import { httpSpanStart } from './http-span.ts';
import { admit, requireHost } from './operators.ts';
import { pathBelow, type Route, shownId } from './route.ts';
import { requireOwnPaths } from './route-paths.ts';
import { routesOf } from './route-table.ts';
import { wantsAnthropicModels } from './routes/models.ts';
import { routesOff } from './routes-off.ts';
import { sendError } from './sinks/send.ts';
import { admitSocket } from './socket-access.ts';

/** The HTTP surface, the same for every host. */
export interface HttpApp {
  /**
   * Serves a request through the exchange that its host has made for it. Never throws.
   * @param instead dependencies that this request has in place of the app's. @default none
   */
  serve(exchange: HostExchange, instead?: Partial<HttpAppDeps>): void;
  /**
   * Sends `error` in place of an answer, in the envelope of the path: an endpoint behind this host may serve a dialect
   * that the app does not.
   */
  refuse(exchange: HostExchange, error: ServeError): void;
  /** Returns whether a path, as the client has sent it, is of a route that a model answers. */
  generates(path: string): boolean;
  /**
   * Loads the code of all routes, which otherwise happens at their first requests. Hosts that listen call this: Node
   * tries to open a file once. If clients held all files of the process at that moment, the route would fail until the
   * process ends.
   */
  load(): Promise<void>;
  /** Serves a request as a plain fetch handler. @param host what it knows of the socket */
  fetch(request: Request, host?: Pick<HostExchange, 'peer'>): Promise<Response>;
  /** Terms for hosts that can hold WebSockets. */
  readonly sockets: SocketTerms;
}

/** Terms that a host of WebSockets must keep to. */
interface SocketTerms {
  /** Room for the messages that are being read. */
  readonly bodies: ByteBudget;
  readonly messageBytesMax: number;
  /** Returns whether a path, as the client has sent it, is served over WebSocket. */
  takes(path: string): boolean;
  /** Resolves with whether a connection is let in. If it is not, its request has been answered. Never rejects. */
  admit(exchange: HostExchange): Promise<boolean>;
}

/**
 * Creates the app.
 * @throws ConfigError for paths that two routes claim
 * @example
 * const app = createHttpApp(deps);
 * const response = await app.fetch(new Request('http://localhost/v1/models'));
 */
export function createHttpApp(deps: HttpAppDeps): HttpApp {
  const router = new SmartRouter<Route>({ routers: [new RegExpRouter(), new TrieRouter()] });
  const routes = routesOf(deps.settings);
  requireOwnPaths(routes, deps.settings.paths);
  for (const route of routes) router.add(ANY_METHOD, route.pattern, route);
  let whyOff: ReturnType<typeof routesOff> | undefined;
  const whyAbsent = (path: string): string | undefined => {
    whyOff ??= routesOff(deps.settings);
    return whyOff(matchedPath(path));
  };
  const serve = (exchange: HostExchange, instead?: Partial<HttpAppDeps>): void => {
    const { path: sentPath } = exchange;
    const own = instead === undefined ? deps : { ...deps, ...instead };
    void respond(own, exchange, { route: routeOf(router, exchange), sentPath }, whyAbsent); // never rejects
  };
  return {
    serve,
    refuse: (exchange, error) => {
      const { path: sentPath } = exchange;
      const { settings } = deps;
      const forAll = { ...deps, settings: { ...settings, anthropic: { ...settings.anthropic, isEnabled: true } } };
      const route = routeOf(router, exchange);
      refuse(forAll, new ServedExchange(exchange, deps, { route, sentPath }), error);
    },
    generates: (path) => routeOf(router, { path })?.access === 'generate',
    load: async () => {
      await Promise.all(routes.map((each) => each.serve.load?.()));
    },
    fetch: createFetchHandler((exchange) => serve(exchange)),
    sockets: {
      bodies: deps.bodies,
      messageBytesMax: Math.min(deps.settings.bodyLimitBytes, deps.bodies.limitBytes),
      takes: (path) => routeOf(router, { path })?.pattern === deps.settings.paths.responses,
      admit: (host) => admitHost(deps, host),
    },
  };
}

async function admitHost(deps: HttpAppDeps, host: HostExchange): Promise<boolean> {
  try {
    await admitSocket(deps, host);
    return !host.sink.closed.aborted;
  } catch (thrown) {
    const exchange = new ServedExchange(host, deps, { route: undefined, sentPath: host.path });
    const error = toServeError(thrown);
    log(deps, exchange, error);
    refuse(deps, exchange, error);
    return false;
  }
}

/**
 * Returns the route of a request, and sets the request's path to the route's own spelling, the only one that keys,
 * limits and logs know.
 */
function routeOf(router: SmartRouter<Route>, exchange: Pick<HostExchange, 'path'>): Route | undefined {
  for (const path of spellings(exchange.path)) {
    const [[found]] = router.match(ANY_METHOD, matchedPath(path));
    if (found === undefined) continue;
    exchange.path = path;
    return found[0];
  }
  return undefined;
}

/**
 * Returns the path as it is, without needless slashes, and with one `/v1`: clients give base URLs with and without
 * them, and join them to paths that have them, too.
 */
function* spellings(path: string): Generator<string> {
  yield path;
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.length === 0) return;
  while (parts[0] === 'v1' && parts[1] === 'v1') parts.shift();
  const bare = `/${parts.join('/')}`;
  if (bare !== path) yield bare;
  if (parts[0] !== 'v1') yield `/v1${bare}`;
}

/** Method of every route in the router: a route refuses other methods itself, and its 405 lists the allowed ones. */
const ANY_METHOD = 'ALL';

/** Decodes the path as far as possible. */
function matchedPath(path: string): string {
  return getPath({ url: `http://localhost${path}` } as Request); // it reads nothing else
}

async function respond(
  deps: HttpAppDeps,
  host: HostExchange,
  place: Place,
  whyAbsent: (path: string) => string | undefined,
): Promise<void> {
  const { route } = place;
  const forPages = corsHeaders(host, deps.settings.corsOrigins);
  const exchange = new ServedExchange(host, deps, place, forPages);
  try {
    requireHost(deps.settings, host);
    if (forPages !== undefined && sendPreflight(exchange)) return;
    if (host.headerLines > LIMITS.header_lines.max) {
      throw overLimit('header_lines', `more than ${LIMITS.header_lines.max} header lines`);
    }
    const { access = 'open' } = route ?? {};
    exchange.grant = await admit(deps, host, typeof access === 'function' ? access(host.path) : access);
    const held = access === 'open' ? undefined : deps.lifecycle.hold(host.sink);
    if (held !== undefined) await held;
    if (host.sink.closed.aborted) return; // the client has left, and the body will not come
    if (route === undefined) throw notFound(exchange, whyAbsent(exchange.path));
    if (route.methods.has(host.method)) await route.serve(deps, exchange);
    else refuseMethod(deps, exchange, [...route.methods].join(','));
  } catch (thrown) {
    if (thrown === host.sink.closed.reason) return; // the client has left
    const error = toServeError(thrown);
    log(deps, exchange, error);
    refuse(deps, exchange, error, error instanceof OverBudget ? error.headers : undefined);
  }
}

/**
 * Logs failures of the server with their stack. Other failures are the clients', who must not be able to fill the log.
 */
function log(
  { logger, metrics }: HttpAppDeps,
  { requestId: x_request_id, path }: HttpExchange,
  error: ServeError,
): void {
  const { code, message: reason, cause } = error;
  if (codeRow(code).level === 'error') {
    metrics.handlerFailed();
    logger.error('request handler failed', { x_request_id, path, error: cause ?? error });
  } else logger.debug('request is refused', { x_request_id, path, code, reason });
}

function notFound({ method, path }: HttpExchange, why: string | undefined): ServeError {
  const message = `Route not found: ${method} ${shownId(path)}`;
  return new ServeError('not_found', why === undefined ? message : `${message}. ${why}`);
}

function refuseMethod(deps: HttpAppDeps, exchange: HttpExchange, allow: string): void {
  const path = shownId(exchange.path);
  const error = asksForSocket(exchange)
    ? webSocketRefusal(path)
    : new ServeError('method_not_allowed', `Method ${exchange.method} is not allowed for ${path}`);
  refuse(deps, exchange, error, { allow });
}

/** Returns whether a client asks for a WebSocket. Proxies such as nginx remove `upgrade` and pass on the key. */
function asksForSocket(exchange: HttpExchange): boolean {
  const hasKey = exchange.method === 'GET' && exchange.header('sec-websocket-key') !== undefined;
  return hasKey || exchange.header('upgrade')?.toLowerCase() === 'websocket';
}

/**
 * Returns a 426, after which agents that try WebSocket first go on over HTTP at once. After any other status they try
 * again.
 */
function webSocketRefusal(path: string): ServeError {
  return new ServeError('websocket_not_supported', `${path} is served over HTTP here, not over WebSocket`);
}

/** Sends a failure that no handler has sent, in the envelope of the dialect that the path or the client belongs to. */
function refuse(
  deps: HttpAppDeps,
  exchange: HttpExchange,
  error: ServeError,
  headers?: Readonly<Record<string, string>>,
): void {
  const { anthropic, paths, overloadStatus } = deps.settings;
  const isBelow = (path: string): boolean => `${exchange.path}/`.startsWith(`${pathBelow(path)}/`);
  const isMessages = anthropic.isEnabled && isBelow(paths.messages);
  if (isMessages || (isBelow(paths.models) && wantsAnthropicModels(deps, exchange))) {
    sendMessagesError(exchange, error, newRequestId(deps.random), headers);
  } else sendError(exchange, error, overloadStatus, headers);
}

type Headers = Readonly<Record<string, string>>;

/** Destination of a request. */
interface Place {
  readonly route: Route | undefined;
  /** Path as the client has sent it. */
  readonly sentPath: string;
}

const HTTP: TransportNames = {
  okStatus: 200,
  goneStatus: 499,
};

/**
 * A host's exchange with the headers that every response carries: its id, and permissions for pages of other origins.
 */
class ServedExchange implements HttpExchange {
  readonly transport = HTTP;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly sink: FrameSink;
  readonly deadline?: AbortSignal;
  readonly memory?: ResponseMemory;
  readonly requestId: string;
  readonly madeRequestId: string | undefined;
  grant: Grant = ANYBODY;
  readonly #host: HostExchange;
  readonly #clientRequestId: string | undefined;
  readonly #forPages: Headers | undefined;
  readonly #onLimit: (limit: LimitName) => void;
  readonly #place: Place;
  /** Status of the response, once there is one. */
  #status: number | undefined;
  #failure: ServeError | undefined;
  #announced: Headers = {};

  /**
   * @param forPages headers of every response to a web page of another origin; undefined = the request comes from no
   * such page
   */
  constructor(
    host: HostExchange,
    { random, metrics }: Pick<HttpAppDeps, 'random' | 'metrics'>,
    place: Place,
    forPages?: Headers,
  ) {
    this.#host = host;
    this.#place = place;
    this.#forPages = forPages;
    this.#onLimit = metrics.limitReached;
    this.method = host.method;
    this.path = host.path;
    this.query = host.query;
    this.sink = host.sink;
    if (host.deadline !== undefined) this.deadline = host.deadline;
    if (host.memory !== undefined) this.memory = host.memory;
    const given = clientRequestId(host.header('x-request-id'));
    this.#clientRequestId = given;
    this.requestId = given ?? random.uuid();
    this.madeRequestId = given === undefined ? this.requestId : undefined;
  }

  get peer(): string | undefined {
    return this.#host.peer;
  }

  get httpVersion(): string | undefined {
    return this.#host.httpVersion;
  }

  spanStart() {
    const { route, sentPath } = this.#place;
    return httpSpanStart(this.#host, route?.operations[0]?.path ?? this.path, sentPath);
  }

  spanEnd() {
    return this.memory === undefined ? { 'http.response.status_code': this.#status } : {};
  }

  isOurFault({ code }: ServeError, status: number): boolean {
    return (status === HTTP.okStatus ? codeRow(code).status : status) >= 500;
  }

  headerNames(): readonly string[] {
    return this.#host.headerNames();
  }

  /** As the host's; an invalid `x-request-id` counts as absent. */
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

  announce(headers: Headers): void {
    this.#announced = { ...this.#announced, ...headers };
  }

  head(status: number, headers: Headers): void {
    this.#status ??= status;
    // The headers of a refusal have figures of the budget that replace those of the grant.
    const all = { ...this.grant.headers(), ...this.#announced, ...headers, 'x-request-id': this.requestId };
    this.sink.head(status, this.#forPages === undefined ? all : { ...all, ...this.#forPages });
  }
}

const ANY_ORIGIN = '*';
/** Headers that scripts of a page may read, besides those that browsers always allow. */
const EXPOSED = [
  'x-request-id',
  'request-id', // the name of the Messages API
  'retry-after',
  'warning', // names the parts of the request that the model did not get
  ...['limit', 'remaining', 'reset'].flatMap((what) => [`x-ratelimit-${what}-requests`, `x-ratelimit-${what}-tokens`]),
].join(', ');
/** How long browsers may remember the response to a preflight. */
const PREFLIGHT_SECS = 86_400;

/**
 * Returns the headers that let a web page of another origin read the response to its request. Keys come as headers,
 * never as cookies, so no header about credentials is needed.
 * @param origins as configured (`--cors-origin`); `*` = every origin
 * @returns undefined for requests that come from no page, or from a page that is not allowed
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

/** Answers the preflight request of an allowed page's browser. Returns false if the request is not a preflight. */
function sendPreflight(exchange: HttpExchange): boolean {
  if (exchange.method !== 'OPTIONS' || exchange.header('access-control-request-method') === undefined) return false;
  exchange.head(204, {
    'access-control-allow-methods': 'GET, POST, PATCH, DELETE',
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
