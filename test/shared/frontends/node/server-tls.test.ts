import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { connect } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { type HttpServer, startHttpServer } from '../../../../shared/frontends/node/server.ts';
import type { TlsMaterial } from '../../../../shared/frontends/node/tls-files.ts';
import { createTestApp } from '../../../support/http-app.ts';

const pem = (file: string) =>
  readFileSync(fileURLToPath(new URL(`../../../fixtures/tls/${file}`, import.meta.url)), 'utf8');
const material = (name: string): TlsMaterial => ({ cert: pem(`${name}.crt`), key: pem(`${name}.key`) });

const servers: HttpServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close(0);
});

async function start(tls: TlsMaterial): Promise<HttpServer> {
  const { app, lifecycle } = createTestApp();
  const server = await startHttpServer(app, { host: '127.0.0.1', port: 0, lifecycle, tls });
  servers.push(server);
  return server;
}

/** Asks `/live` on a connection of its own: the status, and whose certificate was shown. */
function ask(
  server: HttpServer,
  client: Partial<TlsMaterial> = {},
): Promise<{ status: number | undefined; shown: string }> {
  return new Promise((resolve, reject) => {
    const options = {
      port: server.port,
      host: '127.0.0.1',
      path: '/live',
      agent: false,
      rejectUnauthorized: false,
      ...client,
    };
    request(options, (response) => {
      const shown = (response.socket as TLSSocket).getPeerCertificate().subject.CN;
      response.resume().on('end', () => resolve({ status: response.statusCode, shown: String(shown) }));
    })
      .on('error', reject)
      .end();
  });
}

describe('the Node server with a certificate', () => {
  it('speaks HTTPS and says so in its address', async () => {
    const server = await start(material('first'));
    expect(server.url).toBe(`https://127.0.0.1:${server.port}`);
    expect(await ask(server)).toEqual({ status: 200, shown: 'first' });
  });

  it('shows another certificate from the next connection on', async () => {
    const server = await start(material('first'));
    await ask(server);
    server.useCertificate(material('second'));
    expect(await ask(server)).toEqual({ status: 200, shown: 'second' });
  });

  it('serves only clients with a certificate where an authority is set, after a reload as well', async () => {
    const ca = pem('client.crt');
    const server = await start({ ...material('first'), ca });
    await expect(ask(server)).rejects.toThrow();
    expect(await ask(server, material('client'))).toMatchObject({ status: 200 });
    server.useCertificate({ ...material('second'), ca });
    await expect(ask(server, material('first'))).rejects.toThrow();
    expect(await ask(server, material('client'))).toEqual({ status: 200, shown: 'second' });
  });

  it('closes a connection that does not speak TLS and serves the next', async () => {
    const server = await start(material('first'));
    const socket = connect(server.port, '127.0.0.1');
    socket.on('error', () => undefined); // a reset is a way to close
    socket.resume().write('GET /live HTTP/1.1\r\nhost: t\r\n\r\n');
    await new Promise((resolve) => socket.once('close', resolve));
    expect(await ask(server)).toMatchObject({ status: 200 });
  });
});
