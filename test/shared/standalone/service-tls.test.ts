import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { type Clock, SYSTEM, systemClock } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { startIndexer } from '../../../shared/standalone/indexer-service.ts';
import { serveService } from '../../../shared/standalone/service.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { readTlsFixture } from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const TOKEN = 't'.repeat(32);
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A folder with certificates, and the variables that name them. */
function certificates(name: string) {
  const folder = mkdtempSync(join(tmpdir(), 'stator-service-tls-'));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const write = (as: string): void => {
    for (const kind of ['crt', 'key']) writeFileSync(join(folder, kind), readTlsFixture(`${as}.${kind}`));
  };
  write(name);
  const [cert, key] = [join(folder, 'crt'), join(folder, 'key')];
  return { write, cert, key, server: { DYN_TCP_TLS_CERT_PATH: cert, DYN_TCP_TLS_KEY_PATH: key } };
}

interface Opened {
  readonly url: string;
  readonly lines: readonly { readonly message: string; readonly [field: string]: unknown }[];
}

async function open(
  env: Readonly<Record<string, string>>,
  flags: readonly string[] = [],
  clock: Clock = systemClock,
): Promise<Opened> {
  const { settings } = resolveConfig('router', ['--service=indexer', '--service-port=0', ...flags], env);
  const { logger, lines } = captureLogger();
  const service = await startIndexer(settings, SYSTEM, logger);
  cleanups.push(service.close);
  const server = await serveService(service, settings, clock);
  cleanups.push(() => server.close(0));
  return { url: server.url, lines: lines.map(({ message, fields }) => ({ message, ...fields })) };
}

/** Asks for what only the fleet is told; rejects when `ca` does not vouch for who answers. */
async function ask(url: string, ca: string, headers = {}, shown: { cert?: string; key?: string } = {}) {
  const asked = new URL('/dump', url);
  asked.hostname = 'localhost'; // the certificates are for that name
  return new Promise<{ readonly status: number; readonly body: string }>((resolve, reject) => {
    const asking = request(asked, { ca, headers, family: 4, ...shown }, async (response) => {
      resolve({ status: response.statusCode ?? 0, body: await text(response) });
    });
    asking.on('error', reject).end();
  });
}

describe('a service that takes the plane token', () => {
  it('does not open where the token would cross a network in clear, and says in one line what to set', async () => {
    const everywhere = ['--service-host=0.0.0.0'];
    await expect(open({ STATOR_PLANE_TOKEN: TOKEN }, everywhere)).rejects.toThrow(
      'the HTTP service would be shown STATOR_PLANE_TOKEN in clear at 0.0.0.0: set DYN_TCP_TLS_CERT_PATH and ' +
        'DYN_TCP_TLS_KEY_PATH, or set --service-host 127.0.0.1, or set STATOR_PLANE_TLS=off if no one else can read the network',
    );
    await expect(open({ STATOR_PLANE_TOKEN: TOKEN, STATOR_PLANE_TLS: 'on' })).rejects.toThrow(
      / in clear at 127\.0\.0\.1/,
    );
    const chosen = { STATOR_PLANE_TOKEN: TOKEN, STATOR_PLANE_TLS: 'off' };
    expect((await open(chosen, everywhere)).url).toMatch(/^http:/);
    expect((await open({ STATOR_PLANE_TOKEN: TOKEN })).url).toMatch(/^http:/); // it stays on this machine
    const { server } = certificates('first');
    await expect(open({ ...chosen, ...server }, everywhere)).rejects.toThrow(/^STATOR_PLANE_TLS=off contradicts/);
  });

  it('takes it by TLS beyond loopback, with the certificate of the request plane', async () => {
    const { server } = certificates('first');
    const { url } = await open({ STATOR_PLANE_TOKEN: TOKEN, ...server }, ['--service-host=0.0.0.0']);
    expect(url).toMatch(/^https:/);
    const ca = readTlsFixture('first.crt');
    expect((await ask(url, ca)).status).toBe(401);
    expect((await ask(url, ca, { authorization: `Bearer ${TOKEN}` })).status).toBe(200);
    await expect(ask(url, readTlsFixture('second.crt'))).rejects.toThrow(/certificate/);
    await expect(fetch(url.replace('https', 'http'))).rejects.toThrow();
  });

  it('identifies its callers by their certificates if there is no token', async () => {
    const { server } = certificates('first');
    const callers = certificates('client');
    const env = { ...server, DYN_TCP_TLS_CLIENT_CA_CERT_PATH: callers.cert };
    const { url } = await open(env, ['--service-host=0.0.0.0']);
    const ca = readTlsFixture('first.crt');
    const shown = { cert: readTlsFixture('client.crt'), key: readTlsFixture('client.key') };
    const fromElsewhere = { 'x-forwarded-for': '192.0.2.1' };
    expect((await ask(url, ca, fromElsewhere, shown)).status).toBe(200);
    await expect(ask(url, ca)).rejects.toThrow();
  });

  it('takes up a certificate that is renewed', async () => {
    const files = certificates('first');
    const clock = new VirtualClock();
    const { url } = await open({ STATOR_PLANE_TOKEN: TOKEN, ...files.server }, ['--service-host=0.0.0.0'], clock);
    files.write('second');
    await clock.advance(10_000);
    await expect(ask(url, readTlsFixture('first.crt'))).rejects.toThrow(/certificate/);
    expect((await ask(url, readTlsFixture('second.crt'))).status).toBe(401);
  });
});

describe('an indexer that takes over from a peer', () => {
  it('shows the token by TLS, to the peer that the authority vouches for', async () => {
    const { server, cert } = certificates('first');
    const env = { STATOR_PLANE_TOKEN: TOKEN, ...server };
    const { url } = await open(env);
    const peers = `--service-peers=${url.replace('127.0.0.1', 'localhost')}`;
    const trusting = await open({ STATOR_PLANE_TOKEN: TOKEN, DYN_TCP_TLS_CA_CERT_PATH: cert }, [peers]);
    expect(trusting.lines.map(({ message }) => message)).toContain('loaded the index of a peer');
    const other = certificates('second');
    const doubting = await open({ STATOR_PLANE_TOKEN: TOKEN, DYN_TCP_TLS_CA_CERT_PATH: other.cert }, [peers]);
    expect(doubting.lines).toContainEqual(expect.objectContaining({ message: 'a peer returned no dump' }));
  });

  it('does not even call a peer to which it would go in clear', async () => {
    let calls = 0;
    const peer = createServer((socket) => {
      calls++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => peer.close());
    const { port } = peer.address() as { port: number };
    const files = certificates('first');
    const env = { STATOR_PLANE_TOKEN: TOKEN, STATOR_PLANE_TLS: 'on', ...files.server };
    const { lines } = await open(env, [`--service-peers=http://127.0.0.1:${port}`]);
    expect(calls).toBe(0);
    const reason = expect.stringMatching(/^it would be shown STATOR_PLANE_TOKEN in clear .*use https:/);
    expect(lines).toContainEqual(expect.objectContaining({ message: 'a peer returned no dump', reason }));
  });
});
