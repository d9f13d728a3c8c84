import { describe, expect, it } from 'vitest';
import { type IncomingCall, silentObserver, type Transport } from '../../../../../shared/planes/index.ts';
import { encodeRecord } from '../../../../../shared/planes/record-codec.ts';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { freePort, startTcpProxy, type TcpProxy, waitUntil } from '../../../../support/index.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';
import { ENDPOINT, send, usePlanes } from './plane-bed.ts';
import { type FrameLog, frameBytes, HELLO_ACK, RawCaller, startRawWorker } from './raw-peer.ts';

const HALF_A_TAIL = Buffer.concat([encodeRecord({ id: 'a', endpoint: 'b' }), Buffer.of(0, 0, 0, 2, 0, 0)]);

const { cleanups, openPlane, serve } = usePlanes();

/** The same endpoint behind a relay that can fail. */
async function behindProxy(transport: Transport): Promise<{ proxy: TcpProxy; transport: Transport }> {
  const [, port, endpoint] = /^[^:]+:(\d+)\/(.*)$/.exec((transport as { tcp: string }).tcp)!; // made by `serve`
  const proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(port) });
  cleanups.push(() => proxy.close());
  return { proxy, transport: { tcp: `127.0.0.1:${proxy.port}/${endpoint}` } };
}

const endAtOnce = (call: IncomingCall): void => call.end();

describe('a lost connection', () => {
  it('fails every open stream as Disconnected, aborts their handlers, and the next call connects anew', async () => {
    const held = new HeldCalls();
    const direct = await serve(held.handler);
    const { proxy, transport } = await behindProxy(direct.transport);
    const plane = openPlane();
    const sinks = Array.from({ length: 5 }, () => send(plane, transport));
    await held.at(4);
    for (const call of held.calls) call.tokens(0, [1, 2], 0, 2);
    await waitUntil(() => sinks.every((sink) => sink.tokenCount === 2));
    proxy.cut();
    for (const sink of sinks) expect((await sink.failed()).worker).toBe('Disconnected');
    await waitUntil(() => held.calls.every((call) => call.signal.aborted) && direct.server.activeStreams === 0);
    proxy.restore();
    direct.server.handle(ENDPOINT, endAtOnce);
    expect((await send(plane, transport).closed()).kind).toBe('end');
  });

  it('that is merely silent is found by pings, on both sides', async () => {
    const timing = { pingIntervalMs: 20, deadAfterMs: 60 };
    const held = new HeldCalls();
    const direct = await serve(held.handler, timing);
    const { proxy, transport } = await behindProxy(direct.transport);
    const sink = send(openPlane(timing), transport);
    const call = await held.at(0);
    call.accept();
    await waitUntil(() => sink.events.length === 1);
    proxy.stall();
    expect((await sink.failed()).worker).toBe('Disconnected');
    await waitUntil(() => call.signal.aborted);
  });

  it('stays open through pings while a worker thinks', async () => {
    const pings = { pingIntervalMs: 10, deadAfterMs: 30 };
    const held = new HeldCalls();
    let received = 0;
    const observer = { ...silentObserver, bytesReceived: () => void received++ };
    const { transport } = await serve(held.handler, { ...pings, observer });
    const sink = send(openPlane(pings), transport);
    const call = await held.at(0);
    call.accept();
    await waitUntil(() => received > 15); // nothing but pings and pongs, for many times the dead bound
    call.end();
    expect((await sink.closed()).kind).toBe('end');
  });

  it('is closed when idle', async () => {
    let isClosed = false;
    const worker = await startRawWorker((socket) => {
      socket.once('data', () => socket.write(Buffer.concat([HELLO_ACK, frameBytes(FrameType.end, 1, {})])));
      socket.on('close', () => {
        isClosed = true;
      });
    });
    cleanups.push(worker.close);
    const sink = send(openPlane({ pingIntervalMs: 10, idleAfterMs: 20 }), worker.transport);
    expect((await sink.closed()).kind).toBe('end');
    await waitUntil(() => isClosed);
  });
});

describe('connecting', () => {
  it('to a closed port is CannotConnect', async () => {
    const sink = send(openPlane(), { tcp: `127.0.0.1:${await freePort()}/${ENDPOINT}` });
    expect((await sink.failed()).worker).toBe('CannotConnect');
  });

  it('to a listener that never answers is ConnectionTimeout', async () => {
    const heard: FrameLog[] = [];
    const worker = await startRawWorker((_, log) => heard.push(log));
    cleanups.push(worker.close);
    const clock = new VirtualClock(); // connecting takes no time of it, however slow the machine is
    const patient = send(openPlane({ clock, connectTimeoutMs: 50, requestTimeoutMs: 10_000 }), worker.transport);
    const hasty = send(openPlane({ clock, connectTimeoutMs: 10_000, requestTimeoutMs: 50 }), worker.transport);
    await waitUntil(() => heard.filter((log) => log.ofType(FrameType.open).length > 0).length === 2);
    await clock.advance(50);
    expect((await patient.failed()).worker).toBe('ConnectionTimeout');
    expect((await hasty.failed()).worker).toBe('ConnectionTimeout');
  });

  it('to another incarnation at the same address is WorkerUnavailable', async () => {
    const { transport } = await serve(endAtOnce);
    const stale = { tcp: (transport as { tcp: string }).tcp.replace('/2a/', '/99/') };
    const error = await send(openPlane(), stale).failed();
    expect(error.worker).toBe('WorkerUnavailable');
    expect(String(error.cause)).toContain('Server unavailable:');
  });

  it('to a worker that answers under another instance id is WorkerUnavailable', async () => {
    const worker = await startRawWorker((socket) => socket.once('data', () => socket.write(HELLO_ACK)));
    cleanups.push(worker.close);
    const other = { tcp: (worker.transport as { tcp: string }).tcp.replace('/2a/', '/99/') };
    expect((await send(openPlane(), other).failed()).worker).toBe('WorkerUnavailable');
  });

  it.each([undefined, 'another-token', 'a-shared-tokeN'])(
    'with the token %s is refused, and not as the client’s fault',
    async (token) => {
      const { server, transport } = await serve(endAtOnce, { token: 'a-shared-token' });
      const error = await send(openPlane(token === undefined ? {} : { token }), transport).failed();
      expect(error.worker).toBe('CannotConnect');
      expect(error.status).toBe(503);
      expect(server.activeStreams).toBe(0);
    },
  );

  it('reaches several instances behind one listener', async () => {
    const { server, transport } = await serve(endAtOnce);
    const second = server.handle('2b/dynamo/prefill/generate', (call) => {
      call.tokens(0, [7], 0, 1);
      call.end();
    });
    const plane = openPlane();
    expect((await send(plane, transport).closed()).kind).toBe('end');
    const sink = send(plane, second);
    await sink.closed();
    expect(sink.ids).toEqual([7]);
  });

  it('rejects serving on an address that is taken', async () => {
    const { transport } = await serve(endAtOnce);
    const port = Number(/:(\d+)\//.exec((transport as { tcp: string }).tcp)![1]);
    await expect(openPlane({ ports: { first: port, last: port } }).serve({ instanceId: '2b' })).rejects.toThrow(
      'EADDRINUSE',
    );
  });

  it('tells callers the address that others know it by, and takes the next port of its range', async () => {
    const { transport } = await serve(endAtOnce);
    const port = Number(/:(\d+)\//.exec((transport as { tcp: string }).tcp)![1]);
    const last = Math.min(port + 50, 65_535);
    const server = await openPlane({ ports: { first: port, last }, advertiseHost: 'localhost' }).serve({
      instanceId: '2b',
    });
    const advertised = server.handle(ENDPOINT.replace('2a', '2b'), endAtOnce);
    const [, host, taken] = /^(.*):(\d+)\//.exec((advertised as { tcp: string }).tcp)!;
    expect(host).toBe('localhost');
    expect(Number(taken)).toBeGreaterThan(port);
    cleanups.push(() => server.close());
    expect((await send(openPlane(), advertised).closed()).kind).toBe('end');
  });
});

describe('the pool', () => {
  it('opens another connection only when the first is full, and refuses beyond its size', async () => {
    const held = new HeldCalls();
    const { server, transport } = await serve(held.handler, { streamsPerConnectionMax: 2 });
    const plane = openPlane({ streamsPerConnectionMax: 2, poolSizeMax: 2 });
    const sinks = Array.from({ length: 4 }, () => send(plane, transport));
    expect((await send(plane, transport).failed()).worker).toBe('WorkerOverloaded');
    await held.at(3);
    expect(server.activeStreams).toBe(4);
    for (const call of held.calls) call.end();
    for (const sink of sinks) expect((await sink.closed()).kind).toBe('end');
    send(plane, transport);
    await held.at(4); // there is room again
  });

  it('hears when the worker itself has no more room', async () => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler, { streamsPerConnectionMax: 1 });
    const plane = openPlane();
    send(plane, transport);
    await held.at(0);
    expect((await send(plane, transport).failed()).worker).toBe('WorkerOverloaded');
  });

  it('probes a connection that was silent for long before it trusts it', async () => {
    const { transport } = await serve(endAtOnce);
    const plane = openPlane({ suspectAfterMs: 0 });
    for (let at = 0; at < 3; at++) expect((await send(plane, transport).closed()).kind).toBe('end');
  });

  it('sends again over a new connection what was held for a probe that failed', async () => {
    let connections = 0;
    const opens: number[] = [];
    const worker = await startRawWorker((socket, log) => {
      connections++;
      socket.once('data', () => {
        opens.push(log.ofType(FrameType.open).length);
        socket.write(Buffer.concat([HELLO_ACK, frameBytes(FrameType.end, 1, {})])); // and deaf from then on
      });
    });
    cleanups.push(worker.close);
    const plane = openPlane({ suspectAfterMs: 0, probeTimeoutMs: 30 });
    expect((await send(plane, worker.transport).closed()).kind).toBe('end');
    const killed = new RecordingSink();
    const call = plane.call(worker.transport, { id: 'a', headers: {}, body: {} }, killed);
    const sink = send(plane, worker.transport);
    call.kill();
    expect((await sink.closed()).kind).toBe('end');
    expect([connections, opens, killed.events]).toEqual([2, [1, 1], []]);
  });
});

describe('broken peers', () => {
  it.each([
    ['bytes that are no frames', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ['a frame that only callers send', frameBytes(FrameType.open, 1, {})],
    ['a record that is cut off', frameBytes(FrameType.data, 1, encodeRecord({ data: {} }).subarray(0, -1))],
    ['a record of another shape', frameBytes(FrameType.data, 1, [1])],
    ['a stream that was never opened', frameBytes(FrameType.end, 999, {})],
    ['tokens cut inside an entry', frameBytes(FrameType.tokens, 0, new Uint8Array(5))],
    ['a second HELLO_ACK', HELLO_ACK],
  ])('fail streams as BackendProtocol when the worker sends %s', async (_name, bytes) => {
    const worker = await startRawWorker((socket) =>
      socket.once('data', () => socket.write(Buffer.concat([HELLO_ACK, bytes]))),
    );
    cleanups.push(worker.close);
    expect((await send(openPlane(), worker.transport).failed()).worker).toBe('BackendProtocol');
  });

  it.each([
    ['bytes that are no frames', Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'), true],
    ['a frame before HELLO', frameBytes(FrameType.open, 1, {}), true],
    ['a HELLO of another protocol', frameBytes(FrameType.hello, 0, { proto: 1, maxFrame: 1 }), true],
    ['a HELLO beyond its limit', frameBytes(FrameType.hello, 0, new Uint8Array(4097)), true],
    ['a frame that only workers send', frameBytes(FrameType.data, 1, {}), false],
    ['an OPEN without an endpoint', frameBytes(FrameType.open, 1, { id: 'a' }), false],
    ['an OPEN with half a tail', frameBytes(FrameType.open, 1, HALF_A_TAIL), false],
    ['an OPEN with an even stream', frameBytes(FrameType.open, 2, { id: 'a', endpoint: 'b' }), false],
    ['CREDIT of a wrong length', frameBytes(FrameType.credit, 1, 'abc'), false],
  ])('are cut off by the worker when they send %s, and no other caller is', async (_name, bytes, isFirst) => {
    const held = new HeldCalls();
    const { transport } = await serve(held.handler);
    const good = send(openPlane(), transport);
    await held.at(0);
    const raw = await RawCaller.connect(transport);
    if (!isFirst) raw.hello();
    raw.socket.write(bytes);
    await waitUntil(() => raw.isClosed);
    expect(raw.ofType(FrameType.error)).toHaveLength(1);
    held.calls[0]!.end();
    expect((await good.closed()).kind).toBe('end');
  });

  it('that say nothing are cut off after the connect deadline', async () => {
    const { transport } = await serve(endAtOnce, { connectTimeoutMs: 30 });
    const raw = await RawCaller.connect(transport);
    await waitUntil(() => raw.isClosed);
  });

  it('that answer streams already killed are borne with', async () => {
    let answer = (): void => {};
    const worker = await startRawWorker((socket, log) => {
      socket.once('data', () => socket.write(HELLO_ACK));
      answer = () => {
        expect(log.ofType(FrameType.kill)).toHaveLength(1);
        socket.write(frameBytes(FrameType.prologue, 1, { error: null }));
        socket.write(frameBytes(FrameType.tokens, 0, Uint8Array.of(0, 0, 0, 1, 0, 1, 0, 0, 0, 9)));
        socket.write(frameBytes(FrameType.data, 1, { data: {} }));
        socket.write(frameBytes(FrameType.end, 1, {}));
        socket.write(frameBytes(FrameType.end, 3, {}));
      };
    });
    cleanups.push(worker.close);
    const plane = openPlane();
    const killed = new RecordingSink();
    plane.call(worker.transport, { id: 'a', headers: {}, body: {} }, killed).kill();
    const other = send(plane, worker.transport);
    await waitUntil(() => {
      answer();
      return other.isClosed;
    });
    expect(killed.events).toEqual([]);
    expect(other.events.at(-1)?.kind).toBe('end');
  });
});
