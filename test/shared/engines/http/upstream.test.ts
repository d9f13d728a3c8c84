import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { ask, Upstream } from '../../../../shared/engines/http/upstream.ts';

it('asks again over a new connection when the server has closed all idle ones', async () => {
  const sockets = new Map<string, Socket>();
  const server = createServer((request, response) => {
    sockets.set(request.url ?? '', request.socket);
    response.end('here');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const upstream = new Upstream({ url, apiKey: undefined, connectTimeoutMs: 5000, clock: systemClock });
  const get = (path: string) =>
    ask(upstream, { path }, { clock: systemClock, timeoutMs: 10_000, signal: new AbortController().signal });
  await Promise.all(['/1', '/2', '/3'].map(get));
  expect(new Set(sockets.values()).size).toBe(3);
  for (const path of ['/3', '/2', '/1']) sockets.get(path)?.destroy(); // the one that is used next is seen closed first
  expect(await get('/4')).toEqual({ status: 200, text: 'here' });
  upstream.close();
  server.close();
});
