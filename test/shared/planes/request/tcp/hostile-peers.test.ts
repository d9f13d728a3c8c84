import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { type PlaneHandler, type RequestPlane, silentObserver } from '../../../../../shared/planes/index.ts';
import { encodeRecord } from '../../../../../shared/planes/record-codec.ts';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { createTcpRequestPlane, type TcpRequestPlaneOptions } from '../../../../../shared/planes/request/tcp/plane.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { frameBytes, HELLO_ACK, RawCaller, startRawWorker } from './raw-peer.ts';

const ENDPOINT = '2a/dynamo/backend/generate';
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function openPlane(options: Partial<TcpRequestPlaneOptions> = {}): RequestPlane {
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1', ...options });
  cleanups.push(() => plane.close());
  return plane;
}

describe('a hostile worker', () => {
  /** A call that `answer` is the whole answer to. */
  async function ask(...answer: readonly Buffer[]) {
    const worker = await startRawWorker((socket) =>
      socket.once('data', () => socket.write(Buffer.concat([HELLO_ACK, ...answer]))),
    );
    cleanups.push(worker.close);
    const sink = new RecordingSink();
    const call = openPlane().call(worker.transport, { id: 'r', headers: {}, body: {} }, sink);
    return { sink, call };
  }
  /** A TOKENS frame of `count` tokens of the first stream. */
  const tokens = (count: number): Buffer => {
    const entry = Buffer.alloc(6 + 4 * count);
    entry.writeUInt32BE(1);
    entry[5] = count;
    return frameBytes(FrameType.tokens, 0, entry);
  };
  const item = (data: unknown): Buffer => frameBytes(FrameType.data, 1, { data });

  it('that sends more than a caller in need of a pause has granted loses the stream', async () => {
    const { sink, call } = await ask(tokens(200), tokens(56), tokens(1), tokens(1));
    call.pause();
    expect((await sink.failed()).worker).toBe('BackendProtocol');
    expect(sink.tokenCount).toBe(256);
  });

  it.each([
    ['an object with a length', { token_ids: { length: 1e9 } }],
    ['numbers beyond 32 bits', { token_ids: [2 ** 32] }],
    ['fractions', { token_ids: [0.5] }],
    ['texts', { token_ids: ['1'] }],
  ])('that sends %s as token ids loses the stream', async (_, data) => {
    const { sink } = await ask(item(data));
    expect((await sink.failed()).worker).toBe('BackendProtocol');
    expect(sink.events).toHaveLength(1);
  });

  it('that fails in a million words is quoted in part', async () => {
    const error = { kind: 'Internal', message: 'x'.repeat(1e6), param: 'y'.repeat(1e6), retryAfterMs: 1e300 };
    const { sink } = await ask(frameBytes(FrameType.error, 1, encodeRecord(error)));
    const failure = await sink.failed();
    expect(String(failure.cause).length).toBeLessThan(20_000);
    expect(failure.param?.length ?? 0).toBeLessThan(300);
    expect(failure.retryAfterMs ?? 0).toBeLessThanOrEqual(86_400_000);
  });

  it.each([
    ['a negative limit', frameBytes(FrameType.helloAck, 0, { instanceId: '2a', maxFrame: -1 })],
    ['a letter on stream 0', frameBytes(FrameType.helloAck, 0, { instanceId: 'x'.repeat(70_000), maxFrame: 1 })],
    ['tokens without a token', Buffer.concat([HELLO_ACK, tokens(0)])],
    ['a step of five megabytes', Buffer.concat([HELLO_ACK, frameBytes(FrameType.tokens, 0, Buffer.alloc(5 << 20, 1))])],
    ['a PING that is a letter', Buffer.concat([HELLO_ACK, frameBytes(FrameType.ping, 0, new Uint8Array(65))])],
  ])('that sends %s loses the connection', async (_, bytes) => {
    const worker = await startRawWorker((socket) => socket.once('data', () => socket.write(bytes)));
    cleanups.push(worker.close);
    const sink = new RecordingSink();
    openPlane().call(worker.transport, { id: 'r', headers: {}, body: {} }, sink);
    expect((await sink.failed()).worker).toBe('BackendProtocol');
  });
});

describe('a hostile caller', () => {
  async function greeted(handler: PlaneHandler, options: Partial<TcpRequestPlaneOptions> = {}) {
    const server = await openPlane(options).serve({ instanceId: '2a' });
    cleanups.push(() => server.close());
    const raw = await RawCaller.connect(server.handle(ENDPOINT, handler));
    cleanups.push(() => raw.socket.destroy());
    raw.hello();
    return raw;
  }

  it('hands a handler no header that is no text', async () => {
    const held = new HeldCalls();
    const raw = await greeted(held.handler);
    const headers = { trace: 'a', list: ['b'], count: 1, nested: {} };
    raw.send(FrameType.open, 1, { id: 'a', endpoint: ENDPOINT, headers });
    expect((await held.at(0)).headers).toEqual({ trace: 'a' });
  });

  it('that sends a PING that is a letter loses the connection', async () => {
    const raw = await greeted(() => {});
    raw.socket.write(frameBytes(FrameType.ping, 0, new Uint8Array(65)));
    await waitUntil(() => raw.isClosed);
    expect(raw.ofType(FrameType.pong)).toHaveLength(0);
  });

  it('that reads nothing is answered one sign of life, however many it asks for', async () => {
    const held = new HeldCalls();
    let received = 0;
    const bytesReceived = (count: number): void => {
      received += count;
    };
    const observer = { ...silentObserver, bytesReceived };
    const raw = await greeted(held.handler, { observer });
    raw.send(FrameType.open, 1, { id: 'a', endpoint: ENDPOINT });
    const call = await held.at(0);
    raw.socket.pause();
    await waitUntil(
      () => {
        call.output({ text: 'x'.repeat(1 << 19) });
        return call.isBlocked();
      },
      { pollMs: 1 },
    );
    const pings = Buffer.concat(Array.from({ length: 1000 }, () => frameBytes(FrameType.ping, 0, 'ping')));
    const before = received;
    raw.socket.write(pings);
    await waitUntil(() => received - before === pings.length);
    call.end();
    raw.socket.resume();
    await waitUntil(() => raw.ofType(FrameType.end).length === 1);
    expect(raw.ofType(FrameType.pong).length).toBeLessThan(3);
  });

  it('that reads nothing and has every request refused is cut off before that fills memory', async () => {
    const frameBytesMax = 1 << 16;
    const raw = await greeted(() => {}, { frameBytesMax });
    let isRunning = true;
    cleanups.push(() => {
      isRunning = false;
    });
    raw.socket.pause();
    const nowhere = { id: 'a', endpoint: 'x'.repeat(10_000) };
    let streamId = -1;
    const pour = (): void => {
      let hasRoom = true;
      while (hasRoom && isRunning && !raw.isClosed) {
        streamId += 2;
        hasRoom = raw.socket.write(frameBytes(FrameType.open, streamId, nowhere));
      }
    };
    raw.socket.on('drain', pour);
    pour();
    await waitUntil(() => raw.isClosed || raw.socket.destroyed);
  });
});
