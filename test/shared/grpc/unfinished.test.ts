import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import {
  framed,
  type GrpcCall,
  type GrpcMethod,
  type GrpcServer,
  type GrpcServerOptions,
  HealthService,
  OwnRoom,
  openGrpcServer,
  openUnary,
  unary,
} from '../../../shared/grpc/index.ts';
import { dataFrame, FRAME, openFrame, RawHttp2, rawFrame, resetFrame } from '../../support/grpc/raw-http2.ts';
import { readTlsFixture, waitUntil } from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

const wait = (what: string, probe: () => boolean): Promise<boolean> => waitUntil(probe, { timeoutMs: 5000, what });

/** Room that tells how much of it is taken. */
class WatchedRoom extends OwnRoom {
  takenBytes = 0;

  override take(bytes: number): void {
    super.take(bytes);
    this.takenBytes += bytes;
  }

  override give(bytes: number): void {
    super.give(bytes);
    this.takenBytes -= bytes;
  }
}

const ECHO = unary('/t.T/Echo', (message) => message);
const OPEN = openUnary('/t.T/Open', (message) => message);
/** Takes one message, and never another. */
const ONE: GrpcMethod = { path: '/t.T/One', serve: (call) => call.receive(() => call.write(framed(Buffer.of(1)))) };
/** Repeats every message of the stream. */
const REPEAT: GrpcMethod = {
  path: '/t.T/Repeat',
  serve: (call: GrpcCall) => {
    const next = (): void =>
      call.receive((message) => {
        if (message === undefined) return call.end();
        call.write(framed(message));
        next();
      });
    next();
  },
};
/** Lets nobody in before it is told to. */
let letIn: () => void = () => {};
const LATER: GrpcMethod = {
  path: '/t.T/Later',
  serve: (call) => {
    letIn = () => call.receive((message) => call.write(framed(message ?? Buffer.alloc(0))));
  },
};
const METHODS = [ECHO, OPEN, ONE, REPEAT, LATER, ...new HealthService(() => true).methods];

async function open(options: Partial<GrpcServerOptions> = {}): Promise<GrpcServer & { readonly clock: VirtualClock }> {
  const clock = new VirtualClock();
  const given = { host: '127.0.0.1', port: 0, clock, random: seededRandom(1), methods: METHODS, ...options };
  const server = await openGrpcServer(given);
  opened.push({
    close: async () => {
      let isClosed = false;
      void server.close(0).then(() => {
        isClosed = true;
      });
      await waitUntil(() => clock.advance(1).then(() => isClosed), { timeoutMs: 5000, what: 'the end' });
    },
  });
  return { ...server, clock };
}

async function openRaw({ port }: GrpcServer): Promise<RawHttp2> {
  const raw = await RawHttp2.open(port);
  opened.push(raw);
  return raw;
}

async function openSocket({ port }: GrpcServer, first = ''): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  opened.push({ close: () => socket.destroy() });
  socket.on('error', () => {}); // `close` follows
  await once(socket, 'connect');
  socket.resume();
  socket.write(Buffer.from(first, 'latin1'));
  return socket;
}

/** Lets seconds go by until the server has closed it; how many that were. */
async function secondsUntil(isClosed: () => boolean, clock: VirtualClock): Promise<number> {
  for (let second = 0; second < 1000; second++) {
    if (isClosed()) return second;
    await clock.advance(1000);
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  return Number.POSITIVE_INFINITY;
}

/** A message of 4,000,000 bytes of which so many come. */
function begun(bytes: number): Buffer {
  const whole = framed(Buffer.alloc(4_000_000));
  return whole.subarray(0, 5 + bytes);
}

/** In frames as large as HTTP/2 lets one be. */
function dataFrames(stream: number, payload: Buffer): Buffer {
  const frames: Buffer[] = [];
  for (let at = 0; at < payload.length; at += 16_384) frames.push(dataFrame(stream, payload.subarray(at, at + 16_384)));
  return Buffer.concat(frames);
}

/** Its status was told, without an answer before it. */
function isRefused(raw: RawHttp2, stream: number): boolean {
  return raw.of(FRAME.headers, stream).length > 0;
}

describe('messages that are not whole', () => {
  it.each(['/t.T/Echo', '/t.T/Repeat', '/t.T/Later', '/t.T/Open', '/grpc.health.v1.Health/Watch'])(
    'of %s take room as they come, and give it back',
    async (path) => {
      const room = new WatchedRoom(1 << 20);
      const server = await open({ room });
      const raw = await openRaw(server);
      const message = framed(Buffer.alloc(60_000));
      raw.write(openFrame(1, path), openFrame(3, path), dataFrame(1, message.subarray(0, 10_000)));
      await wait('the first part', () => room.takenBytes === 10_000);
      raw.write(dataFrame(1, message.subarray(10_000, 15_000)), dataFrame(3, message.subarray(0, 5)));
      await wait('the second part', () => room.takenBytes === 15_005);
      raw.write(resetFrame(1));
      await wait('the room to be given back', () => room.takenBytes === 5);
      raw.close();
      await wait('all of it to be given back', () => room.takenBytes === 0);
    },
  );

  it('end with RESOURCE_EXHAUSTED where all of them together take too much, and not for what they announce', async () => {
    const room = new WatchedRoom(1 << 20);
    const server = await open({ room });
    const raw = await openRaw(server);
    for (let stream = 1; stream < 200; stream += 2)
      raw.write(openFrame(stream, '/t.T/Echo'), dataFrame(stream, begun(0)));
    await wait('all prefixes', () => room.takenBytes === 500);
    for (let stream = 1; stream < 200; stream += 2) raw.write(dataFrame(stream, Buffer.alloc(16_000)));
    await wait('refusals', () => isRefused(raw, 199));
    expect(room.takenBytes).toBeLessThanOrEqual(1 << 20);
    expect(room.takenBytes).toBeGreaterThan(900_000);
    expect(isRefused(raw, 1)).toBe(false);
    const client = new Client(`127.0.0.1:${server.port}`, credentials.createInsecure());
    opened.push(client);
    const large = await ask(client, '/t.T/Echo', Buffer.alloc(1_500_000));
    expect(large).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    expect(await ask(client, '/t.T/Echo', Buffer.from('small'))).toEqual(Buffer.from('small'));
    raw.close();
    await wait('the room to be given back', () => room.takenBytes === 0);
    expect(await ask(client, '/t.T/Echo', Buffer.alloc(900_000))).toHaveLength(900_000);
  });

  it('take room while no handler reads them yet, even in the smallest of pieces', async () => {
    const room = new WatchedRoom(1 << 20);
    const server = await open({ room });
    const raw = await openRaw(server);
    raw.write(openFrame(1, '/t.T/One'), dataFrame(1, framed(Buffer.from('first'))));
    await wait('the answer', () => raw.dataOf(1).length > 0);
    expect(room.takenBytes).toBe(0);
    const next = framed(Buffer.alloc(50));
    for (let at = 0; at < 2000; at++) raw.write(dataFrame(1, next.subarray(at % 55, (at % 55) + 1)));
    await wait('what waits', () => room.takenBytes === 2000);
    raw.write(dataFrames(1, Buffer.alloc(1_046_000)));
    await wait('all of the window', () => room.takenBytes > 1_040_000);
    const other = await openRaw(server);
    other.write(openFrame(1, '/t.T/One'), dataFrames(1, Buffer.concat([framed(Buffer.of(1)), Buffer.alloc(60_000)])));
    await wait('the refusal', () => other.of(FRAME.headers, 1).length === 2);
  });

  it('are refused above 64 KiB where anybody may call', async () => {
    const server = await open();
    const client = new Client(`127.0.0.1:${server.port}`, credentials.createInsecure());
    opened.push(client);
    expect(await ask(client, '/t.T/Open', Buffer.alloc(64 * 1024))).toHaveLength(64 * 1024);
    for (const path of ['/t.T/Open', '/grpc.health.v1.Health/Check', '/grpc.health.v1.Health/Watch']) {
      expect(await ask(client, path, Buffer.alloc(64 * 1024 + 1))).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    }
  });

  it('have 64 KiB before a call is let in, and the whole window from then on', async () => {
    const room = new WatchedRoom(1 << 23);
    const server = await open({ room, firstWindowBytes: 65_535 });
    const client = new Client(`127.0.0.1:${server.port}`, credentials.createInsecure());
    opened.push(client);
    letIn = () => {};
    const message = Buffer.alloc(3_000_000, 'abc');
    const asked = ask(client, '/t.T/Later', message, true);
    await wait('the first window', () => room.takenBytes === 65_535);
    letIn();
    expect(message.equals((await asked) as Buffer)).toBe(true);
  });
});

function ask(client: Client, path: string, message: Buffer, isStream = false): Promise<Buffer | ServiceError> {
  const same = (bytes: Buffer): Buffer => bytes;
  return new Promise((resolve) => {
    if (!isStream) {
      client.makeUnaryRequest(path, same, same, message, (error, answer) =>
        resolve(error ?? answer ?? Buffer.alloc(0)),
      );
      return;
    }
    const call = client.makeBidiStreamRequest(path, same, same);
    call.on('error', resolve);
    call.on('data', (answer: Buffer) => {
      resolve(answer);
      call.cancel();
    });
    call.write(message);
  });
}

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const SETTINGS = rawFrame(FRAME.settings, 0, 0, Buffer.alloc(0)).toString('latin1');
/** The frame of a head that goes on in another one, which does not come. */
const HALF_HEAD = rawFrame(FRAME.headers, 0, 1, openFrame(1, '/t.T/Echo').subarray(9)).toString('latin1');

describe('connections whose clients fall silent', () => {
  it.each([
    ['before they say anything', ''],
    ['in the middle of the preface', PREFACE.slice(0, 10)],
    ['behind the preface', PREFACE],
    ['behind their settings', PREFACE + SETTINGS],
    ['in the middle of a frame', PREFACE + SETTINGS + HALF_HEAD.slice(0, 12)],
    ['in the middle of a head', PREFACE + SETTINGS + HALF_HEAD],
  ])('are closed after half a minute: %s', async (_when, said) => {
    const server = await open();
    const socket = await openSocket(server, said);
    await wait('the connection', () => server.clock.pendingTimers > 0);
    const seconds = await secondsUntil(() => socket.destroyed || socket.readableEnded, server.clock);
    expect(seconds).toBeGreaterThanOrEqual(30);
    expect(seconds).toBeLessThanOrEqual(34);
  });

  it('are closed after half a minute in the middle of a handshake', async () => {
    const tls = { cert: readTlsFixture('first.crt'), key: readTlsFixture('first.key') };
    const server = await open({ tls });
    const socket = await openSocket(server, '\x16\x03\x01');
    await wait('the connection', () => server.clock.pendingTimers > 0);
    const seconds = await secondsUntil(() => socket.destroyed || socket.readableEnded, server.clock);
    expect(seconds).toBeGreaterThanOrEqual(30);
    expect(seconds).toBeLessThanOrEqual(34);
  });

  it.each([
    ['without a message', '/t.T/Echo', Buffer.alloc(0)],
    ['in the middle of a prefix', '/t.T/Echo', Buffer.alloc(3)],
    ['in the middle of a message', '/t.T/Echo', begun(1000)],
    ['in the middle of a message of a stream', '/t.T/Repeat', Buffer.concat([framed(Buffer.of(1)), begun(1000)])],
    ['without a message that anybody may send', '/grpc.health.v1.Health/Watch', Buffer.alloc(0)],
  ])('get a status on their call and a GOAWAY: %s', async (_when, path, said) => {
    const server = await open();
    const raw = await openRaw(server);
    raw.write(openFrame(1, path), dataFrame(1, said));
    await wait('the connection', () => server.clock.pendingTimers > 0);
    await new Promise((resolve) => setImmediate(resolve));
    const seconds = await secondsUntil(() => raw.of(FRAME.goAway).length > 0, server.clock);
    expect(seconds).toBeGreaterThanOrEqual(30);
    expect(seconds).toBeLessThanOrEqual(33);
    expect(raw.of(FRAME.headers, 1).length).toBeGreaterThan(0);
    expect(await secondsUntil(() => raw.isClosed, server.clock)).toBeLessThan(10);
  });

  it('are closed in the middle of a head that comes behind calls', async () => {
    const server = await open();
    const raw = await openRaw(server);
    raw.write(openFrame(1, '/t.T/Echo'), dataFrame(1, framed(Buffer.of(1)), true));
    await wait('the answer', () => raw.dataOf(1).length > 0);
    await server.clock.advance(100_000);
    expect(raw.isClosed).toBe(false);
    raw.write(rawFrame(FRAME.headers, 0, 3, openFrame(3, '/t.T/Echo').subarray(9)));
    await server.clock.advance(1);
    const seconds = await secondsUntil(() => raw.isClosed, server.clock);
    expect(seconds).toBeGreaterThanOrEqual(28);
    expect(seconds).toBeLessThanOrEqual(36);
  });

  it('stay where they answer, whatever was refused of what they sent', async () => {
    const server = await open();
    const raw = await openRaw(server);
    raw.write(openFrame(1, '/t.T/Repeat'), dataFrame(1, framed(Buffer.of(1))));
    await wait('the answer', () => raw.dataOf(1).length > 0);
    raw.write(openFrame(3, '/t.T/Echo', { ':bad': 'x' })); // nobody is told of it
    await wait('the refusal', () => raw.of(FRAME.reset, 3).length > 0);
    let answered = 0;
    for (let second = 0; second < 100; second++) {
      await server.clock.advance(1000);
      for (const ping of raw.of(FRAME.ping).slice(answered)) raw.write(rawFrame(FRAME.ping, 1, 0, ping.payload));
      answered = raw.of(FRAME.ping).length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    raw.write(dataFrame(1, framed(Buffer.of(2))));
    await wait('the next answer', () => raw.dataOf(1).length === 12);
  });

  it('may take longer for a message that comes at a fair pace', async () => {
    const server = await open();
    const raw = await openRaw(server);
    const message = framed(Buffer.alloc(1_000_000));
    raw.write(openFrame(1, '/t.T/Echo'));
    let at = 0;
    for (; at < 900_000; at += 16_384) {
      raw.write(dataFrame(1, message.subarray(at, at + 16_384)));
      await new Promise((resolve) => setImmediate(resolve));
      await server.clock.advance(900);
    }
    await server.clock.advance(20_000);
    raw.write(dataFrames(1, message.subarray(at)), dataFrame(1, Buffer.alloc(0), true));
    await wait('the answer', () => raw.dataOf(1).length > 0);
  });
});

describe('connections of many clients', () => {
  it('make room for one more by closing the one that has asked nothing for the longest time', async () => {
    const limits: string[] = [];
    const server = await open({ connectionsMax: 4, onLimit: (limit) => limits.push(limit) });
    const busy = await openRaw(server);
    busy.write(openFrame(1, '/t.T/Repeat'));
    const served = await openRaw(server);
    served.write(openFrame(1, '/t.T/Echo'), dataFrame(1, framed(Buffer.of(1)), true));
    await wait('the answer', () => served.dataOf(1).length > 0);
    const silent = [await openSocket(server), await openSocket(server)];
    const later = [await openRaw(server), await openRaw(server)];
    await wait('the silent ones to go', () => silent.every((socket) => socket.destroyed || socket.readableEnded));
    for (const raw of [...later, served, busy]) {
      const stream = raw === served ? 3 : raw === busy ? 1 : 1;
      if (raw !== busy) raw.write(openFrame(stream, '/t.T/Repeat'));
      raw.write(dataFrame(stream, framed(Buffer.of(7))));
      await wait('its answer', () => raw.dataOf(stream).at(-1) === 7);
    }
    expect(limits).toEqual(['grpc_connections', 'grpc_connections']);
    const refused = await openSocket(server);
    await wait('the one for which there is no room', () => refused.destroyed || refused.readableEnded);
    busy.write(resetFrame(1));
    busy.close();
    await new Promise((resolve) => setImmediate(resolve));
    const next = await openRaw(server);
    next.write(openFrame(1, '/t.T/Echo'), dataFrame(1, framed(Buffer.of(1)), true));
    await wait('the answer to the next', () => next.dataOf(1).length > 0);
  });

  it('make room by closing those that watch without having been let in', async () => {
    const server = await open({ connectionsMax: 2 });
    const watches = [await openRaw(server), await openRaw(server)];
    for (const raw of watches)
      raw.write(openFrame(1, '/grpc.health.v1.Health/Watch'), dataFrame(1, framed(Buffer.alloc(0)), true));
    await wait('both', () => watches.every((raw) => raw.dataOf(1).length > 0));
    const raw = await openRaw(server);
    raw.write(openFrame(1, '/t.T/Echo'), dataFrame(1, framed(Buffer.of(1)), true));
    await wait('the answer', () => raw.dataOf(1).length > 0);
    await wait('the oldest to go', () => watches[0]!.isClosed);
    expect(watches[1]!.isClosed).toBe(false);
  });
});
