import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { SYSTEM, systemClock } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { openReplicas } from '../../../shared/standalone/replicas.ts';
import { BODY_BYTES_MAX, serveService } from '../../../shared/standalone/service.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';

const TOKEN = 't'.repeat(32);
const APP = { fetch: async (asked: Request) => new Response(await asked.text()) };
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function serve(env: Readonly<Record<string, string>> = {}, flags: readonly string[] = []): Promise<string> {
  const { settings } = resolveConfig('router', ['--service-port=0', ...flags], env);
  const server = await serveService({ app: APP, port: 8090 }, settings, systemClock);
  cleanups.push(() => server.close(0));
  return server.url;
}

const statusOf = async (url: string, headers: Readonly<Record<string, string>> = {}): Promise<number> =>
  (await fetch(url, { method: 'POST', headers, body: 'x' })).status;

describe('a service beyond loopback', () => {
  it('does not start without a token, and says in one line what to set', async () => {
    await expect(serve({}, ['--service-host=0.0.0.0'])).rejects.toThrow(
      'the HTTP service would listen on 0.0.0.0 for anybody who reaches it: set STATOR_PLANE_TOKEN, ' +
        'or set --service-host 127.0.0.1, or set STATOR_PLANE_OPEN=on if only trusted machines reach it',
    );
    expect(await statusOf(`${await serve({ STATOR_PLANE_OPEN: 'on' }, ['--service-host=0.0.0.0'])}/register`)).toBe(
      200,
    );
  });

  it('does not tell replicas by ZeroMQ what anybody could read', async () => {
    const { settings } = resolveConfig('router', ['--service-host=0.0.0.0', '--service-sync-port=0'], {});
    await expect(openReplicas(settings, SYSTEM.clock, silentLogger)).rejects.toThrow(
      /^the sync port .* STATOR_PLANE_OPEN=on/,
    );
  });
});

describe('a service', () => {
  it('asks for the token where there is one, but not of probes', async () => {
    const url = await serve({ STATOR_PLANE_TOKEN: TOKEN });
    expect(await statusOf(`${url}/register`)).toBe(401);
    expect(await statusOf(`${url}/register`, { authorization: `Bearer ${TOKEN}x` })).toBe(401);
    expect(await statusOf(`${url}/register`, { authorization: `Bearer ${TOKEN}` })).toBe(200);
    expect((await fetch(`${url}/health?x`)).status).toBe(200);
    expect(await statusOf(`${url}/health`)).toBe(401); // only reading is for everybody
    expect((await fetch(`${url}/dump`)).status).toBe(401);
  });

  it('accepts the token from before a rotation, or sends both', async () => {
    const before = 'o'.repeat(40);
    const url = await serve({ STATOR_PLANE_TOKEN: TOKEN, STATOR_PLANE_TOKEN_PREVIOUS: before });
    expect(await statusOf(`${url}/register`, { authorization: `Bearer ${before}` })).toBe(200);
    expect(await statusOf(`${url}/register`, { authorization: `Bearer ${TOKEN}` })).toBe(200);
    expect(await statusOf(`${url}/register`, { authorization: `Bearer ${before}x` })).toBe(401);
    const unaware = await serve({ STATOR_PLANE_TOKEN: before, STATOR_PLANE_TOKEN_PREVIOUS: 'none' });
    const both = { authorization: `Bearer ${TOKEN}`, 'x-api-key': before };
    expect(await statusOf(`${unaware}/register`, both)).toBe(200);
    expect(await statusOf(`${unaware}/register`, { authorization: 'Bearer none' })).toBe(401);
  });

  it('does nothing for a web page without one', async () => {
    const url = await serve();
    expect(await statusOf(`${url}/register`)).toBe(200);
    expect(await statusOf(`${url}/register`, { origin: 'https://evil.example' })).toBe(403);
  });

  it.each(['', 'GET / HTTP/1.1\r\nhost: x\r\n'])('closes what keeps it waiting for a head: %j', async (first) => {
    const { settings } = resolveConfig('router', ['--service-port=0'], {});
    const server = await serveService({ app: APP, port: 8090 }, settings, systemClock, { headMs: 50 });
    cleanups.push(() => server.close(0));
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.resume().write(first);
    await once(socket, 'close');
  });

  it('limits the connections at one time', async () => {
    const { settings } = resolveConfig('router', ['--service-port=0'], {});
    const server = await serveService({ app: APP, port: 8090 }, settings, systemClock, { connectionsMax: 2 });
    cleanups.push(() => server.close(0));
    const open = async () => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
      socket.on('error', () => {}); // `close` follows
      cleanups.push(async () => void socket.destroy());
      await once(socket, 'connect');
      return socket.resume();
    };
    const first = await open();
    await open();
    await once(await open(), 'close');
    const went = once(first, 'close');
    first.end();
    await went;
    expect(await statusOf(server.url)).toBe(200);
  });

  it('limits the bodies at one time', async () => {
    const url = await serve();
    const open = Array.from({ length: 33 }, () => {
      const asking = request(`${url}/register`, { method: 'POST' });
      asking.on('error', () => undefined); // cut when the test is over
      asking.setHeader('content-length', BODY_BYTES_MAX);
      asking.write('x');
      return asking;
    });
    const refused = (await Promise.race(open.map((each) => once(each, 'response')))) as [{ statusCode: number }];
    expect(refused[0].statusCode).toBe(503);
    for (const each of open) each.destroy();
  });
});
