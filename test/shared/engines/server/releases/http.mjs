// The bare HTTP server of a stand-in, and what it counts of its requests.
import { createServer } from 'node:http';

export function sendJson(response, body, status = 200) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export function sendEvent(response, body) {
  response.write(`data: ${typeof body === 'string' ? body : JSON.stringify(body)}\n\n`);
}

/** @param routes by path: `(body, response, request)`; an unknown path gets the answer of FastAPI */
export function serve(routes, port) {
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const route = routes[request.url.split('?')[0]];
    if (route === undefined) sendJson(response, { detail: 'Not Found' }, 404);
    else await route(text === '' ? {} : JSON.parse(text), response, request);
  });
  return new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
}

/** Tokens for one request, one a turn, until all are out or the client has left. */
export async function* tokens(count, response, isAborted = () => false) {
  for (let at = 0; at < count; at++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (response.destroyed || isAborted()) return;
    yield 100 + at;
  }
}
