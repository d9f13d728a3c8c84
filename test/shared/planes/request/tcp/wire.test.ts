import { describe, expect, it } from 'vitest';
import { silentObserver, type Transport } from '../../../../../shared/planes/index.ts';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { HeldCalls } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { ENDPOINT, send, usePlanes } from './plane-bed.ts';
import { frameBytes, RawCaller, recordOf } from './raw-peer.ts';

const { cleanups, openPlane, serve } = usePlanes();

async function rawCaller(transport: Transport, hello: Readonly<Record<string, unknown>> = {}): Promise<RawCaller> {
  const raw = await RawCaller.connect(transport);
  cleanups.push(() => raw.socket.destroy());
  raw.hello(hello);
  return raw;
}

describe('on the wire', () => {
  it.each([
    ['no caller whose HELLO lacks MOVE, for whom it would be a fault of the whole connection', {}, 0],
    ['a caller whose HELLO has it', { moves: true }, 1],
  ])('MOVE reaches %s', async (_who, hello, moves) => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler);
    const raw = await rawCaller(transport, hello);
    raw.send(FrameType.open, 1, { id: 'a', endpoint: ENDPOINT });
    const call = await held.at(0);
    call.accept();
    call.askToMove();
    call.end();
    await waitUntil(() => raw.ofType(FrameType.end).length === 1);
    expect([call.hearsMoves, raw.ofType(FrameType.move).length]).toEqual([moves === 1, moves]);
  });

  it('HELLO is answered with instance, endpoints and limit, and PING with the same bytes', async () => {
    const { transport } = await serve(() => {}, { frameBytesMax: 70_000 });
    const raw = await rawCaller(transport);
    raw.send(FrameType.ping, 0, '123456');
    await waitUntil(() => raw.frames.length === 2);
    const [ack, pong] = raw.frames;
    expect(ack!.type).toBe(FrameType.helloAck);
    expect(recordOf(ack!)).toEqual({ instanceId: '2a', endpoints: [ENDPOINT], maxFrame: 70_000 });
    expect([pong!.type, pong!.streamId, pong!.payload.toString()]).toEqual([FrameType.pong, 0, '123456']);
  });

  it('an engine step of all streams of a connection is one TOKENS frame', async () => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler);
    const raw = await rawCaller(transport);
    for (let stream = 1; stream < 65; stream += 2)
      raw.send(FrameType.open, stream, { id: `r${stream}`, endpoint: ENDPOINT });
    await held.at(31);
    for (const call of held.calls) call.tokens(0, [1], 0, 1);
    await waitUntil(() => raw.ofType(FrameType.tokens).length > 0);
    for (const call of held.calls) call.tokens(0, [2], 0, 1);
    for (const call of held.calls) call.end();
    await waitUntil(() => raw.ofType(FrameType.end).length === 32);
    expect(raw.ofType(FrameType.tokens).map((frame) => frame.payload.length)).toEqual([320, 320]);
    expect(raw.ofType(FrameType.prologue)).toHaveLength(32);
  });

  it('a stream without credit is left out of the TOKENS frame', async () => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler);
    const raw = await rawCaller(transport);
    raw.send(FrameType.open, 1, { id: 'a', endpoint: ENDPOINT });
    const call = await held.at(0);
    call.tokens(0, new Uint32Array(300), 0, 300);
    call.end();
    await waitUntil(() => raw.ofType(FrameType.tokens).length === 1);
    expect(raw.ofType(FrameType.tokens)[0]!.payload.length).toBe(6 + 6 + 4 * 256);
    raw.socket.write(frameBytes(FrameType.credit, 1, Uint8Array.of(0, 0, 0, 30)));
    await waitUntil(() => raw.ofType(FrameType.tokens).length === 2);
    expect(raw.ofType(FrameType.tokens)[1]!.payload.length).toBe(6 + 4 * 30);
    raw.socket.write(frameBytes(FrameType.credit, 1, Uint8Array.of(0xff, 0xff, 0xff, 0xff)));
    await waitUntil(() => raw.ofType(FrameType.end).length === 1);
  });

  it('requests made in one turn leave in one write', async () => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler);
    let writes = 0;
    const plane = openPlane({ observer: { ...silentObserver, bytesSent: () => void writes++ } });
    const sinks = Array.from({ length: 50 }, () => send(plane, transport));
    await held.at(49);
    expect(writes).toBe(1); // HELLO and every OPEN
    for (const call of held.calls) call.end();
    for (const sink of sinks) await sink.closed();
  });

  it('a draining worker says GOAWAY, and the caller leaves after the last stream', async () => {
    const held = new HeldCalls();
    const { server, transport } = await serve(held.handler);
    const raw = await rawCaller(transport);
    await waitUntil(() => raw.frames.length === 1);
    server.drain();
    server.drain();
    await waitUntil(() => raw.ofType(FrameType.goAway).length > 0);
    expect(raw.ofType(FrameType.goAway).map(recordOf)).toEqual([{ reason: 'draining' }]);
    raw.send(FrameType.open, 1, { id: 'a', endpoint: ENDPOINT });
    await waitUntil(() => raw.ofType(FrameType.prologue).length === 1);
    expect(recordOf(raw.frames.at(-1)!)).toMatchObject({
      error: 'Server unavailable: draining',
      typed_error: { kind: 'WorkerUnavailable' },
    });
  });
});

describe('limits', () => {
  it('on a request fail that request alone, on either side of the connection', async () => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler, { frameBytesMax: 100_000 });
    const plane = openPlane();
    const open = send(plane, transport);
    const early = send(plane, transport, 'x'.repeat(100_001)); // before HELLO_ACK told the limit
    expect((await early.failed()).worker).toBe('PayloadTooLarge');
    const late = await send(plane, transport, 'x'.repeat(100_001)).failed();
    expect(late.worker).toBe('PayloadTooLarge');
    expect(late.status).toBe(413);
    (await held.at(0)).end();
    expect((await open.closed()).kind).toBe('end');
  });

  it('on an item fail its stream alone', async () => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler);
    const plane = openPlane({ frameBytesMax: 100_000 });
    const [large, small] = [send(plane, transport), send(plane, transport)];
    await held.at(1);
    held.calls[0]!.output({ text: 'x'.repeat(100_001) });
    held.calls[1]!.end();
    expect(await large.failed()).toMatchObject({ worker: 'BackendProtocol', status: 502 }); // the request was not too large
    expect(held.calls[0]!.signal.aborted).toBe(true);
    expect((await small.closed()).kind).toBe('end');
  });

  it('on output that waits for a caller that does not read: its engine hears of it, then the stream fails', async () => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler, { frameBytesMax: 1 << 20 });
    const raw = await rawCaller(transport);
    raw.send(FrameType.open, 1, { id: 'a', endpoint: ENDPOINT });
    raw.send(FrameType.open, 3, { id: 'b', endpoint: ENDPOINT });
    const call = await held.at(0);
    await held.at(1);
    raw.socket.pause();
    const text = 'x'.repeat(1 << 19);
    await waitUntil(
      () => {
        call.output({ text });
        return call.isBlocked();
      },
      { pollMs: 1 },
    );
    let isUnblocked = false;
    held.calls[1]!.onUnblocked(() => {
      isUnblocked = true;
    });
    for (let at = 0; at < 20; at++) call.output({ text });
    expect(call.signal.aborted).toBe(true);
    expect(isUnblocked).toBe(false);
    raw.socket.resume();
    await waitUntil(() => isUnblocked);
    await waitUntil(() => raw.ofType(FrameType.error).length === 1);
    expect(recordOf(raw.ofType(FrameType.error)[0]!)).toMatchObject({ kind: 'ResourceExhausted' });
  });
});
