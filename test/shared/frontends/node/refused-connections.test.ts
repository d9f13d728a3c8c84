import { readFileSync } from 'node:fs';
import { connect as connectSecurely, type TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { type HttpServer, startHttpServer } from '../../../../shared/frontends/node/server.ts';
import { createTestApp } from '../../../support/http-app.ts';
import { waitUntil } from '../../../support/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { LIVE, RawClient } from './raw-client.ts';

const servers: HttpServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close(0);
});

const pem = (file: string) =>
  readFileSync(fileURLToPath(new URL(`../../../fixtures/tls/${file}`, import.meta.url)), 'utf8');
const tls = { cert: pem('first.crt'), key: pem('first.key') };

async function start(options: { readonly tls?: typeof tls } = {}) {
  const clock = new VirtualClock();
  const test = createTestApp({ settings: { bodyLimitBytes: 1024 } });
  const { lifecycle } = test;
  const server = await startHttpServer(test.app, {
    host: '127.0.0.1',
    port: 0,
    lifecycle,
    clock,
    headMs: 50,
    ...options,
  });
  servers.push(server);
  return { server, clock };
}

/** Resolves when the server holds nothing of the connection any more: what is sent to it is answered with a reset. */
async function isGone(client: RawClient, clock: VirtualClock): Promise<void> {
  await waitUntil(
    async () => {
      await clock.advance(2000);
      if (client.socket.writable) client.send('x');
      return client.isClosed;
    },
    { what: 'the connection is gone', timeoutMs: 5000 },
  );
}

const POST = 'POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n';
const LONG_HEAD = `GET /live HTTP/1.1\r\nhost: t\r\nx: ${'a'.repeat(600_000)}`;

/** A request with an empty body in chunks. */
function chunked(method: string, version: string, framing: string): string {
  return `${method} /v1/completions HTTP/${version}\r\nhost: t\r\n${framing}\r\n\r\n0\r\n\r\n`;
}

/** What is sent, and the status that it is refused with; the client keeps its end open whatever it is told. */
const REFUSED: readonly (readonly [string, string, number])[] = [
  ['says nothing', '', 408],
  ['sends half a head', 'GET /live HTTP/1.1\r\nhost: t\r\n', 408],
  ['sends half a head after a whole request', `${LIVE}GET /live HTTP/1.1\r\n`, 408],
  ['sends what is no HTTP', 'NONSENSE\r\n\r\n', 400],
  ['sends what is no HTTP after a whole request', `${LIVE}NONSENSE\r\n\r\n`, 400],
  ['begins a handshake of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
  ['speaks HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['sends a head that is too long', LONG_HEAD, 431],
  ['sends an unknown method', 'BREW /live HTTP/1.1\r\nhost: t\r\n\r\n', 405],
  ['sends no host', 'GET /live HTTP/1.1\r\n\r\n', 400],
  ['expects what is not met', `${POST}expect: tea\r\ncontent-length: 9\r\n\r\n`, 417],
  ['sends half a body that is too long', `${POST}content-length: 2000\r\n\r\n{"mod`, 413],
  ['sends half a body of another type', 'POST /v1/completions HTTP/1.1\r\nhost: t\r\ncontent-length: 99\r\n\r\n{', 415],
  ['sends half a body to no route', 'POST /nowhere HTTP/1.1\r\nhost: t\r\ncontent-length: 99\r\n\r\n{', 404],
  ['sends half a body after a broken chunk', `${POST}transfer-encoding: chunked\r\n\r\nZZ\r\n`, 400],
  ['names two hosts', 'GET /live HTTP/1.1\r\nhost: t\r\nHost: t\r\n\r\n', 400],
  ['names two other hosts', 'GET /live HTTP/1.1\r\nhost: t\r\nx: y\r\nHOST: u\r\n\r\n', 400],
  ['sends chunks in HTTP/1.0', chunked('POST', '1.0', 'transfer-encoding: chunked'), 400],
  ['sends another coding', chunked('POST', '1.1', 'transfer-encoding: gzip, chunked'), 400],
  [
    'sends two codings on two lines',
    chunked('POST', '1.1', 'transfer-encoding: gzip\r\ntransfer-encoding: chunked'),
    400,
  ],
  ['sends chunks in chunks', chunked('POST', '1.1', 'transfer-encoding: chunked, chunked'), 400],
  ['sends no coding that is known', chunked('POST', '1.1', 'transfer-encoding: identity'), 400],
  ['sends chunks with a GET', chunked('GET', '1.1', 'transfer-encoding: xchunked'), 400],
  ['sends a length and chunks', chunked('POST', '1.1', 'content-length: 5\r\ntransfer-encoding: chunked'), 400],
  ['sends chunks and a length', chunked('POST', '1.1', 'transfer-encoding: chunked\r\ncontent-length: 5'), 400],
  ['sends two lengths', chunked('POST', '1.1', 'content-length: 5\r\ncontent-length: 5'), 400],
  ['sends a list of lengths', chunked('POST', '1.1', 'content-length: 5, 5'), 400],
  ['sends a length below zero', chunked('POST', '1.1', 'content-length: -5'), 400],
  ['folds a header line', 'GET /live HTTP/1.1\r\nhost: t\r\nx: a\r\n b\r\n\r\n', 400],
  ['has a blank before a colon', 'GET /live HTTP/1.1\r\nhost : t\r\n\r\n', 400],
];

describe('a refused connection that its client keeps', () => {
  it.each(REFUSED)('is gone once a client that %s was answered', async (_, sent, status) => {
    const { server, clock } = await start();
    const client = new RawClient(server.port, true);
    if (sent !== '') client.send(sent);
    await waitUntil(() => client.text.includes(`HTTP/1.1 ${status} `));
    await isGone(client, clock);
  });

  it('is gone though its client sends on and on what is not wanted', async () => {
    const { server, clock } = await start();
    const client = new RawClient(server.port, true);
    client.send(`${POST}transfer-encoding: chunked\r\n\r\n`);
    const sends = setInterval(() => client.socket.writable && client.send(`400\r\n${'x'.repeat(1024)}\r\n`), 5);
    await waitUntil(() => client.text.includes('HTTP/1.1 413 '));
    await isGone(client, clock);
    clearInterval(sends);
  });

  it('is used again where the rest of its request came', async () => {
    const { server, clock } = await start();
    const client = new RawClient(server.port);
    client.send(`${POST}content-length: 2000\r\n\r\n`);
    await waitUntil(() => client.text.includes('HTTP/1.1 413 '));
    client.send('x'.repeat(2000) + LIVE);
    await waitUntil(() => client.text.endsWith('"Service is live"}'));
    await clock.advance(60_000);
    client.send(LIVE);
    await waitUntil(() => client.text.split('"Service is live"').length === 3);
    client.socket.destroy();
  });

  it('is gone where its handshake has failed, or does not come', async () => {
    const { server, clock } = await start({ tls });
    for (const sent of ['GET / HTTP/1.1\r\n\r\n', '']) {
      const client = new RawClient(server.port, true);
      if (sent !== '') client.send(sent);
      await isGone(client, clock);
    }
  });

  it('is gone where nothing was asked after the handshake', async () => {
    const { server, clock } = await start({ tls });
    const client = connectSecurely({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false });
    const closed = new Promise((resolve) => client.once('close', resolve));
    client.on('error', () => undefined);
    expect(await answered(client)).toContain('HTTP/1.1 408 ');
    await clock.advance(2000);
    await closed;
  });
});

function answered(client: TLSSocket): Promise<string> {
  return new Promise((resolve) => client.once('data', (bytes) => resolve(bytes.toString('latin1'))));
}
