import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A small OpenAI-compatible server that answers every chat with "Hello there" and keeps what it was asked. */
export interface FakeServer {
  readonly url: string;
  readonly requests: readonly { readonly authorization: string | undefined; readonly body: unknown }[];
  /** Streams whose client left before their end. */
  readonly dropped: number;
  /** Sends the rest of every open stream, which is held after the first word. */
  goOn(): void;
  close(): void;
}

const MODEL = 'fake-model';
const HEAD = { id: 'fake-1', created: 1, model: MODEL };

/** @param models that it lists */
export async function startFakeServer(models: readonly string[] = [MODEL]): Promise<FakeServer> {
  const list = { object: 'list', data: models.map((id) => ({ id })) };
  const state = { requests: [] as { authorization: string | undefined; body: unknown }[], dropped: 0 };
  const held = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    if (request.method === 'GET') return sendJson(response, 200, list);
    void readBody(request).then((body) => {
      state.requests.push({ authorization: request.headers.authorization, body });
      if (JSON.stringify(body).includes('refuse')) {
        return sendJson(response, 400, { error: { message: 'I refuse', type: 'invalid_request_error' } });
      }
      if (!(body as { stream?: boolean }).stream) return sendJson(response, 200, wholeAnswer());
      held.add(response);
      response.on('close', () => {
        if (held.delete(response)) state.dropped++;
      });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(frame({ role: 'assistant', content: 'Hello' }, null));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests: state.requests,
    get dropped() {
      return state.dropped;
    },
    goOn() {
      for (const response of held)
        response.end(`${frame({ content: ' there' }, null)}${frame({}, 'stop')}data: [DONE]\n\n`);
      held.clear();
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return JSON.parse(text);
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function frame(delta: object, finishReason: string | null): string {
  const choices = [{ index: 0, delta, finish_reason: finishReason }];
  return `data: ${JSON.stringify({ ...HEAD, object: 'chat.completion.chunk', choices })}\n\n`;
}

function wholeAnswer(): object {
  const message = { role: 'assistant', content: 'Hello there' };
  return {
    ...HEAD,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  };
}
