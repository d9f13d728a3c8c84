import { once } from 'node:events';
import http2 from 'node:http2';
import { connect as connectTls } from 'node:tls';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../shared/clock/index.ts';
import {
  encodeMessage,
  framed,
  type GrpcCall,
  type GrpcMethod,
  type GrpcServer,
  type GrpcServerOptions,
  GrpcStatus,
  HealthService,
  openGrpcServer,
  unary,
} from '../../../shared/grpc/index.ts';
import { HealthCheckRequestSchema } from '../../../shared/grpc/messages/generated/health_pb.js';
import {
  dataFrame,
  FRAME,
  openFrame,
  RawHttp2,
  rawFrame,
  resetFrame,
  windowFrame,
} from '../../support/grpc/raw-http2.ts';
import { readTlsFixture, waitUntil } from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

const ECHO: GrpcMethod = unary('/t.T/Echo', (message) => message);
const LATER: GrpcMethod = unary('/t.T/Later', async (message) => {
  await Promise.resolve();
  return message;
});
const FAILS: GrpcMethod = unary('/t.T/Fails', () => Promise.reject(new GrpcStatus(9, 'no')));
const LONG: GrpcMethod = unary('/t.T/Long', () => Promise.reject(new GrpcStatus(9, 'ä'.repeat(1 << 20))));

async function open(methods: readonly GrpcMethod[], options: Partial<GrpcServerOptions> = {}): Promise<GrpcServer> {
  const given = { host: '127.0.0.1', port: 0, clock: systemClock, random: seededRandom(1), methods, ...options };
  const server = await openGrpcServer(given);
  opened.push({ close: () => server.close(0) });
  return server;
}

async function openRaw({ port }: GrpcServer, streamWindowBytes?: number): Promise<RawHttp2> {
  const raw = await RawHttp2.open(port, streamWindowBytes);
  opened.push(raw);
  return raw;
}

const same = (bytes: Buffer): Buffer => bytes;

function ask(
  { port }: GrpcServer,
  path: string,
  message: string,
  channel = credentials.createInsecure(),
): Promise<string | ServiceError> {
  const client = new Client(`localhost:${port}`, channel);
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, same, same, Buffer.from(message), (error, response) => {
      client.close();
      resolve(error ?? String(response));
    });
  });
}

const wait = (what: string, probe: () => boolean): Promise<boolean> => waitUntil(probe, { timeoutMs: 5000, what });

describe('a gRPC server and hostile clients', () => {
  it('does not answer a client that left with the very bytes of its call', async () => {
    const server = await open([ECHO, LATER, FAILS]);
    const raw = await openRaw(server);
    const message = framed(Buffer.from('gone'));
    const paths = ['/t.T/Echo', '/t.T/Later', '/t.T/Fails', '/t.T/None'];
    let stream = 1;
    for (let round = 0; round < 100; round++) {
      for (const path of paths) {
        raw.write(openFrame(stream, path), dataFrame(stream, message, true), resetFrame(stream));
        stream += 2;
      }
      raw.write(openFrame(stream, '/x', { 'content-type': 'text/html' }), resetFrame(stream));
      stream += 2;
    }
    raw.write(openFrame(stream, '/t.T/Echo'), dataFrame(stream, message, true));
    await wait('the answer to the last call', () => raw.dataOf(stream).length > 0 || raw.isClosed);
    expect(await ask(server, '/t.T/Echo', 'still there')).toBe('still there');
  });

  it.each([
    ['pings', () => rawFrame(FRAME.ping, 0, 0, Buffer.alloc(8))],
    ['settings', () => rawFrame(FRAME.settings, 0, 0, Buffer.alloc(0))],
    ['empty parts of a message', () => dataFrame(1, Buffer.alloc(0))],
    ['resets of a new stream each', (at: number) => Buffer.concat([openFrame(at, '/t.T/Echo'), resetFrame(at)])],
    ['windows of a byte', () => windowFrame(1, 1)],
  ])('lives through a flood of %s', async (_what, flood) => {
    const server = await open([ECHO]);
    const raw = await openRaw(server);
    raw.write(openFrame(1, '/t.T/Echo'));
    for (let burst = 0; burst < 20 && !raw.isClosed; burst++) {
      raw.write(Buffer.concat(Array.from({ length: 500 }, (_, at) => flood(3 + 2 * (burst * 500 + at)))));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await ask(server, '/t.T/Echo', 'still there')).toBe('still there');
  });

  it('cuts a status down to what clients take of metadata', async () => {
    const server = await open([LONG]);
    const error = (await ask(server, '/t.T/Long', '')) as ServiceError;
    expect(error.code).toBe(9);
    expect(error.details).toMatch(/^ä{500,}$/);
  });

  it('sends all of a message through a window of one byte', async () => {
    const server = await open([ECHO]);
    const raw = await openRaw(server, 1);
    const message = framed(Buffer.from('through the eye of a needle'));
    raw.write(openFrame(1, '/t.T/Echo'), dataFrame(1, message, true));
    for (let at = 1; at <= message.length; at++) {
      await wait('a byte', () => raw.dataOf(1).length >= at);
      expect(raw.dataOf(1)).toHaveLength(at);
      raw.write(windowFrame(1, 1));
    }
    expect(raw.dataOf(1)).toEqual(message);
    await wait('the status', () => raw.of(FRAME.headers, 1).length === 2);
  });

  it('ends a call whose message never comes when its time is over', async () => {
    let isGone = false;
    const clock = new VirtualClock();
    const waits: GrpcMethod = {
      path: '/t.T/Waits',
      serve: (call: GrpcCall) => {
        call.closed.addEventListener('abort', () => {
          isGone = true;
        });
      },
    };
    const server = await open([waits], { clock });
    const raw = await openRaw(server);
    raw.write(openFrame(1, '/t.T/Waits', { 'grpc-timeout': '3S' }));
    await wait('the call', () => clock.pendingTimers === 2); // the other one looks at all connections
    await clock.advance(2999);
    expect(isGone).toBe(false);
    await clock.advance(1);
    expect(isGone).toBe(true);
    await wait('the status', () => raw.of(FRAME.headers, 1).length === 1);
  });
});

describe('connections of a gRPC server', () => {
  it('are cut when their pings are not answered', async () => {
    const clock = new VirtualClock();
    const server = await open([ECHO], { clock, keepaliveMs: 1000, keepaliveTimeoutMs: 300 });
    const raw = await openRaw(server);
    await wait('the connection', () => clock.pendingTimers === 2); // the other one looks at all connections
    for (let ping = 0; ping < 2; ping++) {
      await clock.advance(1000);
      const [, flags, payload] = await pingOf(raw);
      expect(flags).toBe(0);
      raw.write(rawFrame(FRAME.ping, 1, 0, payload));
      await wait('the pong to come', () => clock.pendingTimers === 2);
    }
    await clock.advance(1000);
    await pingOf(raw);
    expect(raw.isClosed).toBe(false);
    await clock.advance(300);
    await wait('the end', () => raw.isClosed);
  });

  it('are asked to go at their age, and end what they have begun', async () => {
    const clock = new VirtualClock();
    let release: (() => void) | undefined;
    const slow = unary('/t.T/Slow', () => {
      return new Promise<Buffer>((resolve) => {
        release = () => resolve(Buffer.from('done'));
      });
    });
    const server = await open([slow], { clock, connectionAgeMsMax: 60_000 });
    const raw = await openRaw(server);
    raw.write(openFrame(1, '/t.T/Slow'), dataFrame(1, framed(Buffer.alloc(0)), true));
    await wait('the call', () => release !== undefined);
    await clock.advance(63_000);
    await wait('GOAWAY', () => raw.of(FRAME.goAway).length === 1);
    release?.();
    await wait('the answer', () => raw.dataOf(1).toString().endsWith('done'));
    await wait('the end', () => raw.isClosed);
  });

  it('hear of the drain from who watches first, and from GOAWAY after that', async () => {
    const health = new HealthService(() => true);
    const server = await open(health.methods);
    const raw = await openRaw(server);
    const request = framed(encodeMessage(HealthCheckRequestSchema, { service: '' }));
    raw.write(openFrame(1, '/grpc.health.v1.Health/Watch'), dataFrame(1, request, true));
    await wait('SERVING', () => raw.dataOf(1).length === 7);
    health.shutDown();
    await server.close(1000);
    const last = raw.frames.findLastIndex(({ type, stream }) => type === FRAME.data && stream === 1);
    expect(raw.dataOf(1).at(-1)).toBe(2);
    expect(raw.frames.findIndex(({ type }) => type === FRAME.goAway)).toBeGreaterThan(last);
  });

  it('show the new certificate once it is swapped, and those that stand go on', async () => {
    const [first, second] = ['first', 'second'].map(pairOf);
    const server = await open([ECHO], { tls: first });
    const standing = http2.connect(`https://127.0.0.1:${server.port}`, { rejectUnauthorized: false });
    opened.push({ close: () => standing.destroy() });
    await once(standing, 'connect');
    const before = await certificateAt(server.port);
    server.useCertificate(second!);
    expect(await certificateAt(server.port)).not.toBe(before);
    const stream = standing.request({ ':method': 'POST', ':path': '/t.T/Echo', 'content-type': 'application/grpc' });
    stream.end(framed(Buffer.from('on')));
    const [data] = (await once(stream, 'data')) as [Buffer];
    expect(data.toString()).toContain('on');
  });
});

describe('callers that must show a certificate', () => {
  it('are let in with one and not without, before and after the swap', async () => {
    const clientCa = readTlsFixture('client.crt');
    const server = await open([ECHO], { tls: { ...pairOf('first'), clientCa } });
    for (const name of ['first', 'second']) {
      server.useCertificate({ ...pairOf(name), clientCa });
      const ca = Buffer.from(readTlsFixture(`${name}.crt`));
      const { cert, key } = pairOf('client');
      const known = credentials.createSsl(ca, Buffer.from(key), Buffer.from(cert));
      expect(await ask(server, '/t.T/Echo', 'known', known)).toBe('known');
      expect(await ask(server, '/t.T/Echo', 'unknown', credentials.createSsl(ca))).toMatchObject({
        code: status.UNAVAILABLE,
      });
    }
  });
});

function pairOf(name: string) {
  return { cert: readTlsFixture(`${name}.crt`), key: readTlsFixture(`${name}.key`) };
}

async function certificateAt(port: number): Promise<string> {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] });
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

async function pingOf(raw: RawHttp2) {
  const isPing = ({ type, flags }: { type: number; flags: number }): boolean => type === FRAME.ping && flags === 0;
  await wait('a ping', () => raw.frames.some(isPing));
  const at = raw.frames.findIndex(isPing);
  const [ping] = raw.frames.splice(at, 1);
  return [at, ping?.flags, ping?.payload ?? Buffer.alloc(8)] as const;
}

describe('the time that a client gives', () => {
  it('is heard by who serves it, before the call ends', async () => {
    const heard: string[] = [];
    const never: GrpcMethod = {
      path: '/t.T/Never',
      serve: (call) => {
        call.watch({
          late: () => heard.push(`late, ${call.isOver ? 'over' : 'under way'}`),
          left: () => heard.push('left'),
        });
      },
    };
    const server = await open([never]);
    // One that leaves the end to the server: a client that resets its call at its own deadline may be first.
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    opened.push(session);
    const call = session.request({
      ':method': 'POST',
      ':path': '/t.T/Never',
      'content-type': 'application/grpc',
      te: 'trailers',
      'grpc-timeout': '50m',
    });
    call.end(Buffer.alloc(5));
    const [head] = (await once(call, 'response')) as [http2.IncomingHttpHeaders];
    expect(head['grpc-status']).toBe(String(status.DEADLINE_EXCEEDED));
    await wait('the server to hear of it', () => heard.length === 2);
    expect(heard).toEqual(['late, under way', 'left']);
  });
});
