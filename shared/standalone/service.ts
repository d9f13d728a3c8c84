import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import { type Admission, refuseCaller } from '../access/index.ts';
import type { Clock } from '../clock/index.ts';
import { readText } from '../concurrency/index.ts';
import type { Settings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import { createServiceServer, followServiceCertificate, secureService } from '../fleet/index.ts';
import { defaultConnectionsMax } from '../grpc/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { BodyFields, parseExactJson, ServiceError, writeExactJson } from './body-fields.ts';

/** Larger bodies are refused with 413. */
export const BODY_BYTES_MAX = 8 * 1024 * 1024;

/** One request to a service. */
export interface ServiceCall {
  /** Reads the JSON body. @throws ServiceError 400, 413, 415 or 422 */
  body(): Promise<BodyFields>;
  /** Like `body`; undefined if the body is empty. */
  optionalBody(): Promise<BodyFields | undefined>;
  /** Returns a path parameter. */
  param(name: string): string;
  /** Returns a query parameter. */
  query(name: string): string | undefined;
  header(name: string): string | undefined;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/** The answer of a route: JSON, text of another type, or a long text in pieces. */
export type Answer =
  | { readonly status: number; readonly json: unknown }
  | { readonly status: number; readonly text: string; readonly contentType: string }
  | { readonly status: number; readonly pieces: Iterable<string>; readonly contentType: string };

/** Body of an answer without data. */
export const OK = { status: 'ok' };

export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  serve(call: ServiceCall): Answer | Promise<Answer>;
}

export function route(method: Route['method'], path: string, serve: Route['serve']): Route {
  return { method, path, serve };
}

/** Form of a service's errors: every failure as `{"error": text}`, or text and empty bodies where Dynamo has them. */
type ErrorForm = 'json' | 'mixed';

interface ServiceAppOptions {
  readonly routes: readonly Route[];
  readonly errorForm: ErrorForm;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly logger: Logger;
  /** Called for every answer; `path` is the route's pattern, never the client's text. */
  readonly onAnswered?: (path: string, method: string, status: number, elapsedMs: number) => void;
}

/** An HTTP app that does not depend on a server. */
export interface ServiceApp {
  fetch(request: Request): Response | Promise<Response>;
}

/** Creates the HTTP app of one of Dynamo's standalone services. 64-bit integers in its JSON are exact. */
export function createServiceApp(options: ServiceAppOptions): ServiceApp {
  const app = new Hono();
  const paths = groupByPath(options.routes);
  for (const [path, routes] of paths) {
    const allow = routes.map(({ method }) => method).join(', ');
    app.all(path, async ({ req }) => {
      const startMs = options.clock.nowMs();
      const method = req.method === 'HEAD' ? 'GET' : req.method;
      const route = routes.find((one) => one.method === method);
      const response =
        route === undefined
          ? refuse(options, new ServiceError(405, `method ${method} is not allowed, only ${allow}`), { allow })
          : await answer(
              options,
              route,
              callOf(req.raw, (name) => req.param(name) ?? ''),
            );
      options.onAnswered?.(path, method, response.status, options.clock.nowMs() - startMs);
      return response;
    });
  }
  app.notFound(({ req }) => refuse(options, new ServiceError(404, `no route ${req.path}`), {}, true));
  return app;
}

function groupByPath(routes: readonly Route[]): ReadonlyMap<string, readonly Route[]> {
  const paths = new Map<string, Route[]>();
  for (const route of routes) {
    const others = paths.get(route.path);
    if (others === undefined) paths.set(route.path, [route]);
    else others.push(route);
  }
  return paths;
}

async function answer(options: ServiceAppOptions, route: Route, call: ServiceCall): Promise<Response> {
  try {
    return toResponse(await route.serve(call));
  } catch (thrown) {
    if (thrown instanceof ServiceError) return refuse(options, thrown);
    options.logger.error('request failed', { path: route.path, reason: reasonOf(thrown) });
    return refuse(options, new ServiceError(500, 'internal error'));
  }
}

function toResponse(answered: Answer): Response {
  if ('json' in answered) return jsonResponse(answered.status, answered.json);
  const { status, contentType } = answered;
  const body = 'text' in answered ? answered.text : streamOf(answered.pieces);
  return new Response(body, { status, headers: { 'content-type': contentType } });
}

function jsonResponse(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(writeExactJson(body), { status, headers: { 'content-type': 'application/json', ...headers } });
}

/** Makes a piece when the reader has room for it, and one per turn. */
function streamOf(pieces: Iterable<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = pieces[Symbol.iterator]();
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        await nextTurn();
        const { done, value } = iterator.next();
        if (done) controller.close();
        else if (value === '') continue;
        else controller.enqueue(encoder.encode(value));
        return;
      }
    },
    cancel() {
      iterator.return?.();
    },
  });
}

/** The indexer answers a request without a route with no body, and a body that it cannot read with plain text. */
function refuse(
  { errorForm }: ServiceAppOptions,
  error: ServiceError,
  headers: Readonly<Record<string, string>> = {},
  isUnrouted = error.status === 405,
): Response {
  const { status, message } = error;
  if (errorForm === 'json') return jsonResponse(status, { error: message }, headers);
  if (isUnrouted) return new Response(null, { status, headers });
  if (status === 413 || status === 415 || status === 422) {
    return new Response(message, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } });
  }
  return jsonResponse(status, { error: message }, headers);
}

function callOf(request: Request, param: (name: string) => string): ServiceCall {
  const { signal, headers } = request;
  const search = new URL(request.url).searchParams;
  return {
    signal,
    param,
    query: (name) => search.get(name) ?? undefined,
    header: (name) => headers.get(name) ?? undefined,
    body: async () => {
      requireJson(headers);
      return new BodyFields(parseBody(await bodyText(request)));
    },
    optionalBody: async () => {
      const text = await bodyText(request);
      if (text === '') return undefined;
      requireJson(headers);
      return new BodyFields(parseBody(text));
    },
  };
}

const JSON_TYPE = /^\s*application\/(?:json|[^\s;/]+\+json)\s*(?:;|$)/i;

function requireJson(headers: Headers): void {
  if (JSON_TYPE.test(headers.get('content-type') ?? '')) return;
  throw new ServiceError(415, 'Expected request with `Content-Type: application/json`');
}

function parseBody(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch (error) {
    throw new ServiceError(400, `Failed to parse the request body as JSON: ${reasonOf(error)}`);
  }
}

/** @throws ServiceError of 499, which is never sent, if the client disconnects before the body is complete */
async function bodyText(request: Request): Promise<string> {
  const tooLarge = (): ServiceError => new ServiceError(413, `body exceeds ${BODY_BYTES_MAX} bytes`);
  const announced = request.headers.get('content-length');
  if (Number(announced ?? 0) > BODY_BYTES_MAX) throw tooLarge();
  const pieces = announced === null ? (request.body ?? []) : inOnePiece(request);
  const bounds = { bytesMax: BODY_BYTES_MAX, timeoutMs: REQUEST_MS_MAX };
  const { kind, text } = await readText(pieces as AsyncIterable<Uint8Array>, bounds).catch((thrown: unknown) => {
    throw new ServiceError(499, `the body was not received: ${reasonOf(thrown)}`);
  });
  if (kind === 'too-large') throw tooLarge();
  if (kind === 'text') return text;
  throw new ServiceError(400, 'Failed to parse the request body as JSON: it is not UTF-8');
}

/** The HTTP server checks the announced length; this takes a fifth less CPU time than reading pieces. */
async function* inOnePiece(request: Request): AsyncIterable<Uint8Array> {
  yield new Uint8Array(await request.arrayBuffer());
}

interface ServiceServer {
  /** Without a trailing slash. */
  readonly url: string;
  /** Requests in progress have `graceMs` to end. */
  close(graceMs: number): Promise<void>;
}

/** Paths for probes and scrapers, which have no token; they change nothing and name no worker. */
const PUBLIC_PATHS: ReadonlySet<string> = new Set(['/health', '/ready', '/metrics']);
/** Time limit for the head of a request. */
const HEAD_MS_MAX = 20_000;
/** Time limit for a whole request with its body; late requests are searched every `CHECK_MS`. */
const REQUEST_MS_MAX = 30_000;
const CHECK_MS = 1000;
/** Maximum size of all bodies in progress together; a body without an announced length counts as the largest. */
const BODIES_BYTES_MAX = 32 * BODY_BYTES_MAX;

interface ServiceBounds {
  /** Further connections are refused. @default half of the files that the process may open, 8192 at most */
  readonly connectionsMax?: number;
  /** Time limit for the head of a request, in milliseconds of the system. @default 20,000 */
  readonly headMs?: number;
}

/**
 * Serves one of the standalone services to callers that may use it.
 * @throws Error with one line that names the setting to change if the port cannot be bound, anyone could reach it, or
 * the token would cross a network unencrypted
 */
export async function serveService(
  { app, port: usualPort }: Pick<RunningService, 'app' | 'port'>,
  settings: ServiceSettings,
  clock: Clock,
  { connectionsMax, headMs = HEAD_MS_MAX }: ServiceBounds = {},
): Promise<ServiceServer> {
  const { serviceHost: host, servicePort: port = usualPort } = settings;
  const remedy = 'set --service-host 127.0.0.1';
  const { admission, tls } = secureService(settings, { name: 'the HTTP service', host, remedy });
  const answer = getRequestListener((request) => app.fetch(request), { overrideGlobalObjects: false });
  const bodies = new BodiesUnderWay();
  const limits = {
    noDelay: true,
    requestTimeout: REQUEST_MS_MAX,
    headersTimeout: headMs,
    connectionsCheckingInterval: Math.min(headMs, CHECK_MS),
  };
  const { server, useCertificate } = createServiceServer(
    limits,
    tls,
    (incoming, outgoing) => {
      const refused = refuseIncoming(admission, incoming) ?? bodies.take(incoming, outgoing);
      if (refused === undefined) void answer(incoming, outgoing);
      else sendRefusal(outgoing, refused);
    },
    clock,
  );
  server.maxConnections = connectionsMax ?? (await defaultConnectionsMax());
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      reject(new Error(`cannot listen on ${host}:${port} (--service-host, --service-port): ${error.message}`));
    });
    server.listen({ host, port }, resolve);
  });
  server.removeAllListeners('error');
  const { port: bound } = server.address() as AddressInfo; // a TCP server that listens has an address
  const following = followServiceCertificate(settings, clock, tls, useCertificate);
  const shown = host === '0.0.0.0' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${shown}:${bound}`,
    close: (graceMs) =>
      new Promise((resolve) => {
        following?.cancel();
        const cut = clock.after(graceMs, () => server.closeAllConnections());
        server.close(() => {
          cut.cancel();
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}

interface Refused {
  readonly status: number;
  readonly message: string;
}

function refuseIncoming(
  admission: Admission,
  { method, url = '/', socket, headers, httpVersion }: IncomingMessage,
): Refused | undefined {
  const isRead = method === 'GET' || method === 'HEAD';
  if (isRead && PUBLIC_PATHS.has(url.split('?', 1)[0]!)) return undefined;
  const header = (name: string): string | undefined => [headers[name]].flat()[0];
  return refuseCaller(admission, { peer: socket.remoteAddress, httpVersion, header });
}

/** Sends the refusal without waiting for the rest of the request. */
function sendRefusal(outgoing: ServerResponse, { status, message }: Refused): void {
  const headers = { 'content-type': 'application/json', connection: 'close' };
  const more = status === 401 ? { 'www-authenticate': 'Bearer' } : status === 503 ? { 'retry-after': '1' } : {};
  outgoing.writeHead(status, { ...headers, ...more }).end(JSON.stringify({ error: message }));
}

/** Counts the bytes of bodies that are being read or processed. */
class BodiesUnderWay {
  #bytes = 0;

  /** Counts the body of a request until its answer is over; returns a refusal if there is no room for it. */
  take({ headers }: IncomingMessage, outgoing: ServerResponse): Refused | undefined {
    const announced = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : Infinity;
    const bytes = Math.min(announced, BODY_BYTES_MAX);
    if (this.#bytes + bytes > BODIES_BYTES_MAX) {
      return {
        status: 503,
        message: `request bodies in progress fill the limit of ${BODIES_BYTES_MAX} bytes; try again`,
      };
    }
    this.#bytes += bytes;
    outgoing.once('close', () => {
      this.#bytes -= bytes;
    });
    return undefined;
  }
}

/** Settings of `stator router`. */
export type ServiceSettings = Settings<'router'>;

/** A standalone service that answers HTTP requests. */
export interface RunningService {
  readonly app: ServiceApp;
  /** Default port. */
  readonly port: number;
  close(): Promise<void>;
}
