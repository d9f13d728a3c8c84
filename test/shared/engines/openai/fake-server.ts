import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request that the server got. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Record<string, unknown>;
  readonly response: ServerResponse;
  /** Resolves when the client closed the connection before the answer was complete. */
  readonly dropped: Promise<void>;
}

export type Answer = (received: Received) => void;

/** An OpenAI-compatible server that answers as told. */
export class FakeServer {
  readonly received: Received[] = [];
  models: unknown = { object: 'list', data: [{ id: 'upstream-model', object: 'model', max_model_len: 2048 }] };
  modelsStatus = 200;
  healthStatus = 200;
  answer: Answer = ({ response }) => sendEvents(response, [chunk('hi', null), chunk('', 'stop')]);
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => void this.#handle(request, response));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    if (path.endsWith('/v1/models')) return sendJson(response, this.modelsStatus, this.models);
    if (path.endsWith('/health')) return sendJson(response, this.healthStatus, {});
    let text = '';
    for await (const part of request) text += String(part);
    const dropped = once(response, 'close').then(() => {
      if (response.writableFinished) return new Promise<void>(() => {});
    });
    const received = { path, headers: request.headers, body: JSON.parse(text), response, dropped };
    this.received.push(received);
    this.answer(received);
  }
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export function startEvents(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
}

export function writeEvent(response: ServerResponse, body: unknown): boolean {
  return response.write(`data: ${JSON.stringify(body)}\n\n`);
}

export function sendEvents(response: ServerResponse, bodies: readonly unknown[], tail = 'data: [DONE]\n\n'): void {
  startEvents(response);
  for (const body of bodies) writeEvent(response, body);
  response.end(tail);
}

export function chunk(content: string, finishReason: string | null, index = 0): Record<string, unknown> {
  const choice = { index, delta: { content }, finish_reason: finishReason };
  return { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'upstream-model', choices: [choice] };
}
