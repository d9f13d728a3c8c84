import { setImmediate as nextTurn } from 'node:timers/promises';
import { Hono } from 'hono';
import type { Clock } from '../clock/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { BodyFields } from './body-fields.ts';
import { parseExactJson, writeExactJson } from './exact-json.ts';
import { ServiceError } from './service-error.ts';

/** Larger bodies are refused with 413. */
export const BODY_BYTES_MAX = 8 * 1024 * 1024;

/** One request to a service. */
export interface ServiceCall {
  /** The JSON body. @throws ServiceError 400, 413, 415 or 422 */
  body(): Promise<BodyFields>;
  /** As `body`; undefined when the body is empty. */
  optionalBody(): Promise<BodyFields | undefined>;
  /** Path parameter. */
  param(name: string): string;
  /** Query parameter. */
  query(name: string): string | undefined;
  header(name: string): string | undefined;
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
}

/** What a route answers: JSON, text of another kind, or a long text in pieces. */
export type Answer =
  | { readonly status: number; readonly json: unknown }
  | { readonly status: number; readonly text: string; readonly contentType: string }
  | { readonly status: number; readonly pieces: Iterable<string>; readonly contentType: string };

/** Body of an answer that has nothing to say. */
export const OK = { status: 'ok' };

export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  serve(call: ServiceCall): Answer | Promise<Answer>;
}

/** How a service says that it refuses: every failure as `{"error": text}`, or text and empty bodies where Dynamo has them. */
export type ErrorForm = 'json' | 'mixed';

export interface ServiceAppOptions {
  readonly routes: readonly Route[];
  readonly errorForm: ErrorForm;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly logger: Logger;
  /** Told of every answer; `path` is the route's pattern, never what a client wrote. */
  readonly onAnswered?: (path: string, method: string, status: number, elapsedMs: number) => void;
}

/** A host-neutral HTTP app. */
export interface ServiceApp {
  fetch(request: Request): Response | Promise<Response>;
}

/** One of Dynamo's standalone services as an HTTP app. 64-bit integers in its JSON are exact. */
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

/** A piece is made when the reader has room for it, and one a turn. */
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

/** The indexer has no body for what it has no route for, and plain text for bodies that it cannot read. */
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
      return new BodyFields(parseBody(await readText(request)));
    },
    optionalBody: async () => {
      const text = await readText(request);
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

async function readText(request: Request): Promise<string> {
  const tooLarge = (): ServiceError => new ServiceError(413, `body exceeds ${BODY_BYTES_MAX} bytes`);
  const announced = request.headers.get('content-length');
  if (Number(announced ?? 0) > BODY_BYTES_MAX) throw tooLarge();
  if (announced !== null) return request.text(); // HTTP holds the client to its word; a fifth less CPU than pieces
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const piece of request.body ?? []) {
    bytes += (piece as Uint8Array).byteLength;
    if (bytes > BODY_BYTES_MAX) throw tooLarge();
    text += decoder.decode(piece as Uint8Array, { stream: true });
  }
  return text + decoder.decode();
}
