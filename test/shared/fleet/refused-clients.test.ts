import type { RequestListener, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../shared/clock/index.ts';
import { serveLoopback, servePage } from '../../../shared/commands/planner/serve-loopback.ts';
import { createServiceServer } from '../../../shared/fleet/index.ts';
import { waitUntil } from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** The servers beside the one for clients: of workers, routers and planners. */
const SERVERS: Readonly<
  Record<string, (answer: RequestListener, clock: Clock) => Promise<{ readonly port: number; close(): Promise<void> }>>
> = {
  'a service of the fleet': async (answer, clock) => {
    const { server } = createServiceServer({ requestTimeout: 10_000 }, undefined, answer, clock);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {
      port: (server.address() as AddressInfo).port,
      close: () => new Promise((resolve) => server.close(() => resolve())),
    };
  },
  'a page of the planner': async (answer, clock) => {
    const page = await serveLoopback('a page', 0, answer, clock);
    return { port: Number(new URL(page.url).port), close: () => page.close() };
  },
};

const REFUSED = {
  nonsense: 'NONSENSE\r\n\r\n',
  'a long head': `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(100_000)}`,
  'two lengths': 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n',
  'a target that names a user': 'GET http://localhost@evil.example/ HTTP/1.1\r\nhost: localhost\r\n\r\n',
  'a target without a host': 'GET http:///x HTTP/1.1\r\nhost: localhost\r\n\r\n',
  'two hosts': 'GET / HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n',
  'chunks in HTTP/1.0': 'POST / HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  'another coding': 'POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
};

/** What is sent behind requests that are not answered yet. */
const BEHIND = {
  nonsense: 'NONSENSE\r\n\r\n',
  'a negative length': 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n',
  'a chunk without a valid size': 'POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n',
  'a long head': `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(100_000)}`,
  'two hosts': 'GET / HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n',
};

describe.each(Object.keys(SERVERS))('%s', (name) => {
  it.each(Object.entries(REFUSED))('lets go of a client that sends %s and keeps its end', async (_, sent) => {
    const clock = new VirtualClock();
    const server = await SERVERS[name]!((_request, response) => response.end(), clock);
    const client = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
    let text = '';
    client.on('error', () => undefined); // a reset is a way to close
    client.on('data', (bytes) => {
      text += bytes.toString('latin1');
    });
    client.write(sent);
    await new Promise((resolve) => client.once('end', resolve).once('close', resolve));
    expect(text).toMatch(/^(?:HTTP\/1\.1 4\d\d |$)/);
    const gone = new Promise((resolve) => client.once('close', resolve));
    await clock.advance(2000);
    const asks = setInterval(() => client.writable && client.write('x'), 5);
    await gone;
    clearInterval(asks);
    await server.close();
  });

  it.each(Object.entries(BEHIND))('answers what came before %s, in its order, and then refuses', async (_, bad) => {
    const slow: ServerResponse[] = [];
    const server = await SERVERS[name]!((request, response) => {
      if (request.url === '/slow') slow.push(response);
      else request.resume();
    }, new VirtualClock());
    const client = connect({ port: server.port, host: '127.0.0.1' });
    const whole = client.toArray();
    client.write(`${'GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(2)}${bad}`);
    await waitUntil(() => slow.length === 2);
    await new Promise((resolve) => setImmediate(resolve)); // what follows is refused in the turn after, at the latest
    for (const [at, response] of slow.entries()) response.end(`slow ${at}`);
    const text = (await whole).join('');
    expect(text).toMatch(/^HTTP\/1\.1 200 .*slow 0.*HTTP\/1\.1 200 .*slow 1.*HTTP\/1\.1 4\d\d .*"error":/s);
    expect(text.split('HTTP/1.1 ')).toHaveLength(4);
    await server.close();
  });
});

it('tells nothing more to a client whose request was answered before its rest could not be read', async () => {
  const page = await serveLoopback('a page', 0, (_, response) => void response.end('page'), new VirtualClock());
  const client = connect({ port: Number(new URL(page.url).port), host: '127.0.0.1' });
  client.write('POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\nX\r\n');
  expect((await client.toArray()).join('').match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200']);
  await page.close();
});

it('takes the host of a target before the Host header on pages for this machine', async () => {
  const page = await serveLoopback(
    'a page',
    0,
    ({ url }, response) => void response.end(`path ${url}`),
    new VirtualClock(),
  );
  const ask = async (target: string, host: string): Promise<string> => {
    const client = connect({ port: Number(new URL(page.url).port), host: '127.0.0.1' });
    client.end(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
    return (await client.toArray()).join('');
  };
  expect(await ask('http://evil.example/x', 'localhost')).toMatch(/^HTTP\/1.1 403 /);
  expect(await ask('http://localhost/x', 'evil.example')).toMatch(/^HTTP\/1.1 200 [\s\S]*path \/x/);
  await page.close();
});

it.each([
  ['127.0.0.1', 403],
  ['0.0.0.0', 200],
])('asks for the name of this machine only on loopback: %s', async (host, status) => {
  const answer: RequestListener = (_, response) => void response.end('page');
  const page = await servePage('a page', { host, port: 0 }, answer, new VirtualClock());
  const client = connect({ port: Number(new URL(page.url).port), host: '127.0.0.1' });
  client.end('GET / HTTP/1.1\r\nhost: 10.0.0.7:9085\r\nconnection: close\r\n\r\n');
  expect((await client.toArray()).join('')).toContain(`HTTP/1.1 ${status} `);
  await page.close();
});
