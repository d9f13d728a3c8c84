import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { freePort } from '../../support/index.ts';

/** A request that the server got. */
export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** The text of the body; u64 values would not survive parsing. */
  readonly text: string;
  readonly body: Record<string, unknown>;
  readonly response: ServerResponse;
  /** Resolves when the client closed the connection before the answer was complete. */
  readonly dropped: Promise<void>;
}

export type Route = (received: Received) => void | Promise<void>;

/** An engine's HTTP server by real sockets: answers by route, else 404 as FastAPI does. */
export class FakeEngineServer {
  readonly received: Received[] = [];
  /** By `METHOD /path`, without the query. */
  readonly routes = new Map<string, Route>();
  #server: Server;
  #port = 0;

  constructor() {
    this.#server = this.#create();
    this.on('GET /health', ({ response }) => void response.writeHead(200).end());
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  on(route: string, answer: Route): this {
    this.routes.set(route, answer);
    return this;
  }

  json(route: string, body: unknown, status = 200): this {
    return this.on(route, ({ response }) => sendJson(response, status, body));
  }

  of(route: string): readonly Received[] {
    return this.received.filter(({ method, path }) => `${method} ${path.split('?')[0]}` === route);
  }

  async start(): Promise<this> {
    if (this.#port === 0) this.#port = await freePort(); // which it still gets when it starts again
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  /** Refuses connections and resets open ones until `start`. */
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
    this.#server = this.#create();
  }

  #create(): Server {
    return createServer((request, response) => void this.#handle(request, response));
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const dropped = once(response, 'close').then(() => {
      if (response.writableFinished) return new Promise<void>(() => {});
    });
    let text = '';
    for await (const part of request) text += String(part);
    const { method = '', url = '', headers } = request;
    const body = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
    const received = { method, path: url, headers, text, body, response, dropped };
    this.received.push(received);
    const route = this.routes.get(`${method} ${url.split('?')[0]}`);
    if (route === undefined) sendJson(response, 404, { detail: 'Not Found' });
    else await route(received);
  }
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export function startEvents(response: ServerResponse): ServerResponse {
  return response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
}

export function writeEvent(response: ServerResponse, body: unknown): void {
  response.write(`data: ${typeof body === 'string' ? body : JSON.stringify(body)}\n\n`);
}
