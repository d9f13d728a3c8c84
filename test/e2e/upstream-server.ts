import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An OpenAI-compatible server of another party, which tells its usage on streams only when asked. */
export interface UpstreamServer {
  readonly url: string;
  close(): void;
}

const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
const HEAD = { id: 'theirs', created: 1, model: 'their-model' };

/** A prompt that says `refuse 429 after 7` is refused with that status and `Retry-After`; all others are answered. */
export async function startUpstreamServer(): Promise<UpstreamServer> {
  const server = createServer((request, response) => {
    if (request.method === 'GET') return sendJson(response, 200, { object: 'list', data: [{ id: HEAD.model }] });
    void readBody(request).then((body) => answer(body, request.url ?? '', response));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function answer(body: Readonly<Record<string, unknown>>, path: string, response: ServerResponse): void {
  const [, status, after = ''] = /refuse (\d+) after (\d+)/.exec(JSON.stringify(body)) ?? [];
  if (status !== undefined) {
    response.setHeader('retry-after', after);
    sendJson(response, Number(status), { error: { message: 'their own words', type: 'their_error' } });
  } else if (body.stream === true) {
    const options = body.stream_options as { readonly include_usage?: boolean } | undefined;
    stream(path.endsWith('/chat/completions'), options?.include_usage === true, response);
  } else {
    const message = { role: 'assistant', content: 'Hello there' };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    sendJson(response, 200, { ...HEAD, object: 'chat.completion', choices, usage: USAGE });
  }
}

function stream(isChat: boolean, tellsUsage: boolean, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const write = (choices: readonly object[], usage: object | null): void => {
    const object = isChat ? 'chat.completion.chunk' : 'text_completion';
    const told = tellsUsage ? { usage } : {};
    response.write(`data: ${JSON.stringify({ ...HEAD, object, choices, ...told })}\n\n`);
  };
  const said = (text: string): object => (isChat ? { delta: { content: text } } : { text });
  write([{ index: 0, ...said('Hello'), finish_reason: null }], null);
  write([{ index: 0, ...said(' there'), finish_reason: 'stop' }], null);
  if (tellsUsage) write([], USAGE);
  response.end('data: [DONE]\n\n');
}

async function readBody(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return JSON.parse(text);
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
