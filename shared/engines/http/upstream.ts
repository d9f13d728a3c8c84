import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestHttp,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import type { Clock, Timer } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import { decodedBody, requireBodyBytes } from './answer-body.ts';

/** Number of idle connections that are kept for later requests. */
const IDLE_CONNECTIONS_MAX = 256;
/** Time after which an idle connection is closed. Common servers close it after 5 s, so a race is rare. */
const KEEP_ALIVE_MS = 4000;

interface UpstreamOptions {
  readonly url: URL;
  readonly apiKey: string | undefined;
  readonly connectTimeoutMs: number;
  readonly clock: Clock;
}

/** Message to the server. */
export interface UpstreamMessage {
  readonly path: string;
  /** JSON text; makes the request a POST. */
  readonly body?: string | undefined;
  /** Form that replaces `body`. */
  readonly form?: { readonly contentType: string; readonly bytes: Buffer } | undefined;
  readonly method?: 'GET' | 'POST' | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Receives the outcome of one exchange. Exactly one of `response` and `failed` is called, on a later turn. */
interface ExchangeListener {
  response(response: IncomingMessage): void;
  /** Takes the failure when no answer came: refused, reset, or no connection within the deadline. */
  failed(error: Error): void;
}

/** Exchange under way. `drop` closes its connection at once, which makes the server stop its work. */
export interface Exchange {
  drop(): void;
}

/** HTTP server of an engine: keeps connections open and limits the time for opening one. */
export class Upstream {
  readonly #options: UpstreamOptions;
  readonly #agent: HttpAgent;
  readonly #request: typeof requestHttp;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    const isSecure = options.url.protocol === 'https:';
    const settings = {
      keepAlive: true,
      keepAliveMsecs: 1000,
      timeout: KEEP_ALIVE_MS,
      maxFreeSockets: IDLE_CONNECTIONS_MAX,
    };
    this.#agent = isSecure ? new HttpsAgent(settings) : new HttpAgent({ ...settings, noDelay: true });
    this.#request = isSecure ? requestHttps : requestHttp;
  }

  /** Host of the server, without brackets. */
  get hostname(): string {
    return this.#options.url.hostname.replace(/^\[|\]$/g, '');
  }

  /** Sends a request; a `body` makes it a POST of JSON. */
  send(message: UpstreamMessage, listener: ExchangeListener): Exchange {
    let current: ClientRequest | undefined;
    // after an answer or a drop, the response reports failures of the connection, if anything does
    let isSettled = false;
    const attempt = (isFresh: boolean): void => {
      const request = this.#open(message, isFresh);
      current = request;
      const connectTimer = this.#limitConnecting(request);
      request.once('response', (response) => {
        connectTimer.cancel();
        isSettled = true;
        listener.response(response);
      });
      request.once('error', (error: NodeJS.ErrnoException) => {
        connectTimer.cancel();
        if (isSettled) return;
        // The server closed an idle connection just as it was reused for this request, so it has not read the request.
        // A server that went away has closed all of them, so only a new connection shows whether it is back.
        if (!isFresh && request.reusedSocket && error.code === 'ECONNRESET') attempt(true);
        else listener.failed(error);
      });
      request.end(message.form?.bytes ?? message.body);
    };
    attempt(false);
    return {
      drop() {
        isSettled = true;
        current?.destroy();
      },
    };
  }

  close(): void {
    this.#agent.destroy();
  }

  #open({ path, body, form, headers: own, method }: UpstreamMessage, isFresh: boolean): ClientRequest {
    const { url, apiKey } = this.#options;
    const headers: Record<string, string> = { accept: 'application/json, text/event-stream', ...own };
    if (apiKey !== undefined) headers.authorization = `Bearer ${apiKey}`;
    const sent = form?.bytes ?? body;
    if (sent !== undefined) {
      headers['content-type'] = form?.contentType ?? 'application/json';
      headers['content-length'] = `${Buffer.byteLength(sent)}`;
    }
    const target = new URL(url.pathname.replace(/\/$/, '') + path, url);
    const verb = method ?? (sent === undefined ? 'GET' : 'POST');
    return this.#request(target, { agent: isFresh ? false : this.#agent, method: verb, headers });
  }

  #limitConnecting(request: ClientRequest): Timer {
    const { connectTimeoutMs, clock } = this.#options;
    const timer = clock.after(connectTimeoutMs, () =>
      request.destroy(new Error(`no connection within ${connectTimeoutMs} ms`)),
    );
    request.once('socket', (socket) => {
      if (socket.connecting) socket.once('connect', () => timer.cancel());
      else timer.cancel();
    });
    return timer;
  }
}

/** Whole answer. */
export interface UpstreamAnswer {
  readonly status: number;
  readonly text: string;
}

/** Reads a response to its end. Rejects when it breaks off or grows over 64 MiB. */
export async function readAll(response: IncomingMessage): Promise<UpstreamAnswer> {
  const bytes = await readBytes(response);
  return { status: response.statusCode ?? 0, text: bytes.toString('utf8') };
}

/** Reads the bytes of a response. Rejects as `readAll` does. */
export async function readBytes(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of decodedBody(response) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    requireBodyBytes(bytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Sends a message and returns the whole answer. Rejects after the deadline, or with the signal's reason. */
export function ask(
  upstream: Upstream,
  message: UpstreamMessage,
  limits: { readonly clock: Clock; readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<UpstreamAnswer> {
  const lateMessage = `no answer within ${limits.timeoutMs} ms`;
  return withDeadline({ ...limits, lateMessage }, (limited) => {
    return new Promise<UpstreamAnswer>((resolve, reject) => {
      const response = (answer: IncomingMessage): void => void readAll(answer).then(resolve, reject);
      const exchange = upstream.send(message, { response, failed: reject });
      limited.addEventListener('abort', () => exchange.drop(), { once: true });
    });
  });
}

/**
 * Returns the headers that link the engine's logs and traces to the request. The request id is the product's own,
 * because engines refuse a duplicate.
 */
export function tracingHeaders({ id, trace }: EngineRequest): Readonly<Record<string, string>> {
  return {
    'x-request-id': id,
    ...(trace?.traceparent === undefined ? {} : { traceparent: trace.traceparent }),
    ...(trace?.tracestate === undefined ? {} : { tracestate: trace.tracestate }),
  };
}

/** Returns whether nothing listens at the server's address: it is gone, or not up yet. */
export function isRefused(thrown: unknown): boolean {
  return thrown instanceof Error && (thrown as NodeJS.ErrnoException).code === 'ECONNREFUSED';
}

/** Parses JSON text, or returns the text itself when it is not JSON. */
export function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return withoutOddNumbers(text) ?? text; // servers answer errors in plain text or HTML too
  }
}

/** A JSON string, or Python's spelling of numbers that JSON does not have. */
const ODD_NUMBER = /"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g;

/** Parses JSON with infinities and NaN replaced by null; undefined if it is not JSON even then. */
function withoutOddNumbers(text: string): unknown {
  if (!text.includes('Infinity') && !text.includes('NaN')) return undefined;
  try {
    return JSON.parse(text.replaceAll(ODD_NUMBER, (found) => (found.startsWith('"') ? found : 'null')));
  } catch {
    return undefined; // it is not JSON, which is not a failure
  }
}

export function asText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Longest wait that is passed on; longer ones are shortened to it. */
const RETRY_AFTER_MS_MAX = 24 * 3_600_000;

/**
 * Returns the `Retry-After` of an answer in milliseconds; `retry-after-ms`, which is more exact, takes precedence.
 * Undefined if there is neither, or if they cannot be read.
 * @param wallMs current time, for values that are dates
 */
export function retryAfterOf(headers: IncomingHttpHeaders, wallMs: number): number | undefined {
  const { 'retry-after-ms': exact, 'retry-after': seconds } = headers;
  if (typeof exact === 'string' && NUMBER.test(exact)) return Math.min(Number(exact), RETRY_AFTER_MS_MAX);
  if (seconds === undefined) return undefined;
  const waitMs = NUMBER.test(seconds) ? Number(seconds) * 1000 : Date.parse(seconds) - wallMs;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), RETRY_AFTER_MS_MAX);
}

const NUMBER = /^\d+(?:\.\d+)?$/;
