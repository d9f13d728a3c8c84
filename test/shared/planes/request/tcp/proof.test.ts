import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { type RequestPlane, silentObserver, type Transport } from '../../../../../shared/planes/index.ts';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { PlaneSecrets } from '../../../../../shared/planes/request/frames/peer-trust.ts';
import { UNPROVEN_MAX } from '../../../../../shared/planes/request/frames/unproven.ts';
import { createTcpRequestPlane, type TcpRequestPlaneOptions } from '../../../../../shared/planes/request/tcp/plane.ts';
import {
  clientTlsOptions,
  securityAt,
  securityTo,
  type TokenEncryption,
} from '../../../../../shared/planes/request/tcp/tls.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { readTlsFixture, waitUntil } from '../../../../support/index.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';
import { type FrameLog, frameBytes, HELLO_ACK, RawCaller, startRawWorker } from './raw-peer.ts';

const ENDPOINT = '2a/dynamo/backend/generate';
const TOKEN = 'a-token-of-at-least-32-characters';
const PROMPT = 'a prompt that nobody else may read';
const CERTIFICATE = { cert: readTlsFixture('first.crt'), key: readTlsFixture('first.key') };
const NONCE = 'A'.repeat(43);
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A plane that knows the token, and what it says of its peers. */
function openPlane(options: Partial<TcpRequestPlaneOptions> = {}): { plane: RequestPlane; refusals: string[] } {
  const refusals: string[] = [];
  const observer = { ...silentObserver, peerRefused: (_: string, reason: string) => void refusals.push(reason) };
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1', token: TOKEN, observer, ...options });
  cleanups.push(() => plane.close());
  return { plane, refusals };
}

async function serve(options: Partial<TcpRequestPlaneOptions> = {}) {
  const held = new HeldCalls();
  const { plane, refusals } = openPlane(options);
  const server = await plane.serve({ instanceId: '2a' });
  cleanups.push(() => server.close());
  const transport = server.handle(ENDPOINT, (call) => {
    held.handler(call);
    call.end();
  });
  return { transport, refusals, calls: held.calls };
}

function send(plane: RequestPlane, transport: Transport): RecordingSink {
  const sink = new RecordingSink();
  plane.call(transport, { id: 'r', headers: { secret: PROMPT }, body: { prompt: PROMPT } }, sink);
  return sink;
}

/** A worker that answers the first bytes of a caller with `answer`, and what it got of callers. */
async function impostor(answer: (hello: Buffer, socket: Socket) => void) {
  const logs: FrameLog[] = [];
  const captured: Buffer[] = [];
  const { transport, close } = await startRawWorker((socket, log) => {
    logs.push(log);
    socket.on('data', (chunk) => captured.push(Buffer.from(chunk)));
    socket.once('data', (hello) => answer(hello, socket));
  });
  cleanups.push(close);
  return { transport, logs, text: () => Buffer.concat(captured).toString('latin1') };
}

/** The same endpoint behind a relay that keeps what passes. */
async function tapped(transport: Transport) {
  const [, port, endpoint] = /^[^:]+:(\d+)\/(.*)$/.exec((transport as { tcp: string }).tcp)!; // made by `serve`
  const toWorker: Buffer[] = [];
  const toCaller: Buffer[] = [];
  const relay = createServer((client) => {
    const upstream = connect({ host: '127.0.0.1', port: Number(port) });
    for (const socket of [client, upstream]) socket.on('error', () => {}); // resets are part of the tests
    client.on('data', (chunk) => toWorker.push(Buffer.from(chunk)));
    upstream.on('data', (chunk) => toCaller.push(Buffer.from(chunk)));
    client.pipe(upstream).pipe(client);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  }).listen(0, '127.0.0.1');
  await once(relay, 'listening');
  cleanups.push(() => relay.close());
  const at = (relay.address() as AddressInfo).port; // a listening TCP server has an AddressInfo
  return {
    transport: { tcp: `127.0.0.1:${at}/${endpoint}` },
    toWorker: () => Buffer.concat(toWorker),
    toCaller: () => Buffer.concat(toCaller),
  };
}

describe('a caller with a token', () => {
  it.each<[string, (hello: Buffer, socket: Socket) => void]>([
    ['closes', (_, socket) => socket.destroy()],
    ['greets as if no proof were needed', (_, socket) => socket.write(HELLO_ACK)],
    ['sends back what it was sent', (hello, socket) => socket.write(hello)],
    ['sends a proof of its own making', (_, s) => s.write(frameBytes(FrameType.challenge, 0, new Uint8Array(64)))],
    ['sends half a proof', (_, socket) => socket.write(frameBytes(FrameType.challenge, 0, new Uint8Array(63)))],
    ['sends a frame that is too long', (_, s) => s.write(frameBytes(FrameType.challenge, 0, new Uint8Array(5000)))],
    ['asks for signs of life', (_, socket) => socket.write(frameBytes(FrameType.ping, 0, 'ping'))],
    ['speaks HTTP', (_, socket) => socket.write('HTTP/1.1 200 OK\r\n\r\n')],
    ['refuses in many words', (_, s) => s.write(frameBytes(FrameType.error, 0, { message: 'x'.repeat(4000) }))],
  ])('sends no request to a listener that %s', async (_, answer) => {
    const worker = await impostor(answer);
    const { plane, refusals } = openPlane();
    const error = await send(plane, worker.transport).failed();
    expect(error.worker).toBe('CannotConnect');
    await waitUntil(() => worker.logs.length === 1);
    expect(worker.logs[0]!.frames.map((frame) => frame.type)).toEqual([FrameType.hello]);
    expect(worker.text()).not.toContain(TOKEN);
    expect(worker.text()).not.toContain(PROMPT);
    expect(refusals).toHaveLength(1);
    expect(refusals[0]!.length).toBeLessThan(400);
  });

  it('gives a listener that stays silent until the deadline, and HELLO alone', async () => {
    const clock = new VirtualClock();
    const worker = await impostor(() => {});
    const { plane, refusals } = openPlane({ clock, connectTimeoutMs: 50 });
    const sink = send(plane, worker.transport);
    await waitUntil(() => worker.logs[0]?.frames.length === 1);
    await clock.advance(50);
    expect((await sink.failed()).worker).toBe('CannotConnect');
    expect(worker.logs[0]!.frames.map((frame) => frame.type)).toEqual([FrameType.hello]);
    expect(refusals.join()).toContain('STATOR_PLANE_TOKEN');
  });

  it('does not wait longer for a listener that drips', async () => {
    const clock = new VirtualClock();
    let drip = (_at: number): void => {};
    let heard = 0;
    const challenge = frameBytes(FrameType.challenge, 0, new Uint8Array(64));
    const worker = await impostor((_, socket) => {
      drip = (at) => void socket.write(challenge.subarray(at, at + 1));
    });
    const observer = { ...silentObserver, bytesReceived: () => void heard++ };
    const { plane } = openPlane({ clock, connectTimeoutMs: 50, observer });
    const sink = send(plane, worker.transport);
    await waitUntil(() => worker.logs[0]?.frames.length === 1);
    for (let at = 0; at < 5; at++) {
      drip(at);
      await waitUntil(() => heard === at + 1);
      await clock.advance(10);
    }
    expect((await sink.failed()).worker).toBe('CannotConnect');
  });

  it('does not take the proof of another connection', async () => {
    const { transport } = await serve();
    const tap = await tapped(transport);
    expect((await send(openPlane().plane, tap.transport).closed()).kind).toBe('end');
    const recorded = tap.toCaller();
    const worker = await impostor((_, socket) => socket.write(recorded));
    expect((await send(openPlane().plane, worker.transport).failed()).worker).toBe('CannotConnect');
    expect(worker.text()).not.toContain(PROMPT);
  });

  it('never sends the token, not even to a worker that knows it', async () => {
    const { transport } = await serve();
    const tap = await tapped(transport);
    expect((await send(openPlane().plane, tap.transport).closed()).kind).toBe('end');
    expect(tap.toWorker().toString('latin1')).toContain(PROMPT);
    expect(tap.toWorker().toString('latin1') + tap.toCaller().toString('latin1')).not.toContain(TOKEN);
  });

  it('proves once a connection, however many requests it carries', async () => {
    const { transport, calls } = await serve();
    const tap = await tapped(transport);
    const { plane } = openPlane();
    for (let at = 0; at < 5; at++) expect((await send(plane, tap.transport).closed()).kind).toBe('end');
    expect(calls).toHaveLength(5);
    expect(tap.toCaller().toString('latin1').split(ENDPOINT)).toHaveLength(2); // one HELLO_ACK names the endpoint
  });
});

describe('a worker with a token', () => {
  async function rawCaller(transport: Transport): Promise<RawCaller> {
    const raw = await RawCaller.connect(transport);
    cleanups.push(() => raw.socket.destroy());
    return raw;
  }
  const OPEN = { id: 'a', endpoint: ENDPOINT };

  it.each<[string, Buffer]>([
    ['a request', frameBytes(FrameType.open, 1, OPEN)],
    ['a sign of life', frameBytes(FrameType.ping, 0, 'ping')],
    ['another HELLO', frameBytes(FrameType.hello, 0, { proto: 2, maxFrame: 1000, nonce: NONCE })],
    ['a proof of its own making', frameBytes(FrameType.proof, 0, new Uint8Array(32))],
    ['half a proof', frameBytes(FrameType.proof, 0, new Uint8Array(16))],
    ['a frame that is too long', frameBytes(FrameType.proof, 0, new Uint8Array(5000))],
  ])('opens nothing and answers nothing for a caller that sends %s as proof', async (_, bytes) => {
    const { transport, calls } = await serve();
    const raw = await rawCaller(transport);
    raw.hello({ nonce: NONCE });
    raw.socket.write(bytes);
    raw.socket.write(frameBytes(FrameType.open, 1, OPEN));
    await waitUntil(() => raw.isClosed);
    expect(raw.frames.map((frame) => frame.type)).toEqual([FrameType.challenge, FrameType.error]);
    expect(calls).toHaveLength(0);
  });

  it('does not take its own proof for that of a caller', async () => {
    const { transport, calls, refusals } = await serve();
    const raw = await rawCaller(transport);
    raw.hello({ nonce: NONCE });
    await waitUntil(() => raw.frames.length === 1);
    raw.socket.write(frameBytes(FrameType.proof, 0, raw.frames[0]!.payload.subarray(32)));
    raw.socket.write(frameBytes(FrameType.open, 1, OPEN));
    await waitUntil(() => raw.isClosed);
    expect(calls).toHaveLength(0);
    expect(refusals).toEqual(['the caller has another STATOR_PLANE_TOKEN']);
  });

  it('does not take the proof of another connection, nor the request behind it', async () => {
    const { transport, calls } = await serve();
    const tap = await tapped(transport);
    expect((await send(openPlane().plane, tap.transport).closed()).kind).toBe('end');
    const raw = await rawCaller(transport);
    raw.socket.write(tap.toWorker());
    await waitUntil(() => raw.isClosed);
    expect(raw.ofType(FrameType.error)).toHaveLength(1);
    expect(calls).toHaveLength(1); // the first one
  });

  it('challenges every caller anew', async () => {
    const { transport } = await serve();
    const callers = await Promise.all([rawCaller(transport), rawCaller(transport)]);
    for (const raw of callers) raw.hello({ nonce: NONCE });
    await waitUntil(() => callers.every((raw) => raw.frames.length === 1));
    expect(callers[0]!.frames[0]!.payload).not.toEqual(callers[1]!.frames[0]!.payload);
  });

  it('gives a caller that drips, or does not prove, no longer than the deadline', async () => {
    const clock = new VirtualClock();
    const { transport, refusals } = await serve({ clock, connectTimeoutMs: 50 });
    const [dripping, silent] = [await rawCaller(transport), await rawCaller(transport)];
    const hello = frameBytes(FrameType.hello, 0, { proto: 2, maxFrame: 1000, nonce: NONCE });
    silent.socket.write(hello);
    await waitUntil(() => silent.frames.length === 1);
    for (let at = 0; at < 5; at++) {
      dripping.socket.write(hello.subarray(at, at + 1));
      await clock.advance(10);
    }
    await waitUntil(() => dripping.isClosed && silent.isClosed);
    expect(refusals).toEqual(['the caller does not prove that it knows the STATOR_PLANE_TOKEN of this process']);
  });

  it('keeps a bounded number of callers that prove nothing, and serves those that do', async () => {
    const { transport } = await serve({ connectTimeoutMs: 600_000 });
    const crowd: RawCaller[] = [];
    for (let at = 0; at <= UNPROVEN_MAX; at++) crowd.push(await rawCaller(transport));
    await waitUntil(() => crowd[0]!.isClosed);
    expect((await send(openPlane().plane, transport).closed()).kind).toBe('end');
    expect(crowd.filter((raw) => !raw.isClosed).length).toBeGreaterThan(UNPROVEN_MAX - 5);
  });
});

describe('two ends whose settings differ', () => {
  const NONE = { token: undefined } as unknown as Partial<TcpRequestPlaneOptions>; // as `openPlane` merges it
  it.each<[string, Partial<TcpRequestPlaneOptions>, Partial<TcpRequestPlaneOptions>, string]>([
    ['another token', {}, { token: 'b'.repeat(32) }, 'another STATOR_PLANE_TOKEN'],
    ['a token at the worker alone', {}, NONE, 'the worker has a STATOR_PLANE_TOKEN, but the caller has none'],
    ['a token at the caller alone', NONE, {}, 'the caller has a STATOR_PLANE_TOKEN, but the worker has none'],
    ['TLS at the worker alone', { encryption: 'on' }, { encryption: 'off' }, 'STATOR_PLANE_T'],
    ['TLS at the caller alone', { encryption: 'off' }, { encryption: 'on' }, 'STATOR_PLANE_TLS'],
    ['TLS by another token', { encryption: 'on' }, { encryption: 'on', token: 'b'.repeat(32) }, 'STATOR_PLANE_TOKEN'],
  ])(
    '%s: the call fails as one that another worker may serve, and both say what to set',
    async (_, atWorker, atCaller, words) => {
      const worker = await serve(atWorker);
      const caller = openPlane(atCaller);
      const error = await send(caller.plane, worker.transport).failed();
      expect(error.status).toBe(503);
      expect(['CannotConnect', 'Disconnected']).toContain(error.worker);
      expect(worker.calls).toHaveLength(0);
      expect(caller.refusals).toHaveLength(1);
      expect(caller.refusals[0]).toContain(words);
      await waitUntil(() => worker.refusals.length > 0 || words.startsWith('another'));
      expect(worker.refusals.every((line) => line.includes('STATOR_PLANE_T'))).toBe(true);
    },
  );
});

describe('TLS by the token', () => {
  it('hides requests and answers from who listens on the way', async () => {
    const { transport } = await serve({ encryption: 'on' });
    const tap = await tapped(transport);
    expect((await send(openPlane({ encryption: 'on' }).plane, tap.transport).closed()).kind).toBe('end');
    const seen = tap.toWorker().toString('latin1') + tap.toCaller().toString('latin1');
    expect(seen).not.toContain(PROMPT);
    expect(seen).not.toContain(ENDPOINT);
  });
});

describe('a listener that others reach', () => {
  const OPENED: [string, Partial<TcpRequestPlaneOptions>][] = [
    ['a token', { token: TOKEN }],
    ['certificates of callers', { tls: { server: { ...CERTIFICATE, clientCa: CERTIFICATE.cert } } }],
    ['the word of its operator', { open: true }],
  ];
  it.each(OPENED)('opens with %s', async (_, options) => {
    const plane = createTcpRequestPlane({ clock: systemClock, host: '0.0.0.0', ...options });
    const server = await plane.serve({ instanceId: '2a' });
    await server.close();
    await plane.close();
  });

  it('does not open without: one line says what to set', async () => {
    const plane = createTcpRequestPlane({ clock: systemClock, host: 'auto', tls: { server: CERTIFICATE } });
    await expect(plane.serve({ instanceId: '2a' })).rejects.toThrow(
      /^the request plane would listen on 0\.0\.0\.0 .*STATOR_PLANE_TOKEN.*DYN_TCP_RPC_HOST=127\.0\.0\.1.*STATOR_PLANE_OPEN=on.*$/,
    );
  });
});

describe('what decides whether a channel is encrypted', () => {
  const secret = new PlaneSecrets(TOKEN);
  const ADDRESSES = ['127.0.0.1', '::1', '10.0.0.7', 'worker-3.internal'];
  it.each<[TokenEncryption, boolean[]]>([
    ['auto', [false, false, true, true]],
    ['on', [true, true, true, true]],
    ['off', [false, false, false, false]],
  ])('STATOR_PLANE_TLS=%s: the address and the own settings, at both ends alike', (encryption, expected) => {
    const settings = { tls: undefined, encryption, secret };
    expect(ADDRESSES.map((address) => securityTo(address, settings) !== undefined)).toEqual(expected);
    expect(ADDRESSES.map((address) => securityAt(address, settings) !== undefined)).toEqual(expected);
    expect(securityTo('10.0.0.7', { ...settings, secret: undefined })).toBeUndefined();
    expect(securityTo('127.0.0.1', { ...settings, tls: { client: {} } })).toEqual(clientTlsOptions({}));
  });
});

describe('a man in the middle of an encrypted channel', () => {
  it('who decrypts and passes on gets no request, though a caller looks at no certificate', async () => {
    const SECOND = { cert: readTlsFixture('second.crt'), key: readTlsFixture('second.key') };
    const { transport, calls } = await serve({ tls: { server: CERTIFICATE } });
    const [, port, endpoint] = /^[^:]+:(\d+)\/(.*)$/.exec((transport as { tcp: string }).tcp)!; // made by `serve`
    const captured: Buffer[] = [];
    const middle = createTlsServer(SECOND, (client) => {
      const upstream = connectTls({ host: '127.0.0.1', port: Number(port), rejectUnauthorized: false });
      for (const socket of [client, upstream]) socket.on('error', () => {}); // resets are part of the tests
      client.on('data', (chunk) => captured.push(Buffer.from(chunk)));
      client.pipe(upstream).pipe(client);
      client.on('close', () => upstream.destroy());
    }).listen(0, '127.0.0.1');
    await once(middle, 'listening');
    cleanups.push(() => middle.close());
    const at = (middle.address() as AddressInfo).port; // a listening TCP server has an AddressInfo
    const { plane } = openPlane({ tls: { client: { isInsecure: true } } });
    expect((await send(plane, transport).closed()).kind).toBe('end');
    expect((await send(plane, { tcp: `127.0.0.1:${at}/${endpoint}` }).failed()).worker).toBe('CannotConnect');
    expect(Buffer.concat(captured).toString('latin1')).not.toContain(PROMPT);
    expect(calls).toHaveLength(1); // the direct one
  });
});
