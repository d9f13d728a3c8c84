import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { isMigratable } from '../../../../../shared/errors/index.ts';
import { NatsClient, type RequestPlane } from '../../../../../shared/planes/index.ts';
import { createNatsRequestPlane } from '../../../../../shared/planes/request/nats/plane.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import {
  hasNatsServer,
  type NatsServer,
  startNatsServer,
  startTcpProxy,
  type TcpProxy,
  waitUntil,
} from '../../../../support/index.ts';

const ENDPOINT = '2a/dynamo/backend/generate';

describe.runIf(hasNatsServer())('the NATS request plane', () => {
  const planes: RequestPlane[] = [];
  let server: NatsServer;
  let proxy: TcpProxy;
  beforeEach(async () => {
    server = await startNatsServer();
    proxy = await startTcpProxy({ host: '127.0.0.1', port: server.port });
  });
  afterEach(async () => {
    await Promise.all(planes.splice(0).map((plane) => plane.close()));
    await proxy.close();
    await server.stop();
  });

  function open(port = server.port, token = 'a-shared-token', connectTimeoutMs = 5000): RequestPlane {
    const client = new NatsClient({
      clock: systemClock,
      servers: [`nats://127.0.0.1:${port}`],
      retryMs: 20,
      closeTimeoutMs: 200,
    });
    const plane = createNatsRequestPlane({
      client,
      clock: systemClock,
      token,
      pingIntervalMs: 100,
      deadAfterMs: 1000,
      connectTimeoutMs,
    });
    planes.push(plane);
    return plane;
  }

  /** A stream under way between two processes, one of them behind the proxy when its port says so. */
  async function hold(ports: { readonly caller?: number; readonly worker?: number } = {}) {
    const [caller, worker] = [open(ports.caller), open(ports.worker)];
    const held = new HeldCalls();
    const plane = await worker.serve({ instanceId: '2a' });
    const transport = plane.handle(ENDPOINT, held.handler);
    await plane.reachable(AbortSignal.timeout(5000));
    const sink = new RecordingSink();
    caller.call(transport, { id: 'r1', headers: {}, body: {} }, sink);
    const incoming = await held.at(0);
    incoming.tokens(0, [1, 2], 0, 2);
    await waitUntil(() => sink.tokenCount === 2);
    return { caller, plane, transport, held, sink, incoming };
  }

  it('ends what is in flight with a retryable error when the server dies, on both sides, and works when it is back', async () => {
    const { caller, plane, transport, held, sink, incoming } = await hold();
    await server.kill();
    const error = await sink.failed();
    expect([error.worker, isMigratable(error)]).toEqual(['Disconnected', true]);
    await waitUntil(() => incoming.signal.aborted);
    expect(plane.activeStreams).toBe(0);
    await server.restart();
    const again = await waitUntil(async () => {
      const next = new RecordingSink();
      caller.call(transport, { id: 'r2', headers: {}, body: {} }, next);
      await waitUntil(() => next.isClosed || held.calls.length > 1);
      return held.calls.length > 1 ? next : undefined; // the worker may not be back yet
    });
    held.calls[1]!.end();
    expect((await again.closed()).kind).toBe('end');
  });

  it('calls an endpoint reachable when the server knows of it, and not before', async () => {
    const [caller, worker] = [open(), open()];
    const plane = await worker.serve({ instanceId: '2a' });
    server.freeze();
    const transport = plane.handle(ENDPOINT, (call) => call.end());
    const seen: string[] = [];
    const reachable = plane.reachable(AbortSignal.timeout(20_000)).then(() => seen.push('reachable'));
    await new Promise(setImmediate);
    seen.push('thawed');
    server.thaw();
    await reachable;
    expect(seen).toEqual(['thawed', 'reachable']);
    const sink = new RecordingSink();
    caller.call(transport, { id: 'r1', headers: {}, body: {} }, sink);
    expect((await sink.closed()).kind).toBe('end');
  });

  it('says when an endpoint is reachable also if the server is away meanwhile, and stops waiting when told to', async () => {
    const plane = await open().serve({ instanceId: '2a' });
    await server.kill();
    plane.handle(ENDPOINT, (call) => call.end());
    await expect(plane.reachable(AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
    const reachable = plane.reachable(AbortSignal.timeout(20_000));
    await server.restart();
    await reachable;
  });

  it('learns at the next heartbeat that a worker is gone without a word', async () => {
    const { sink } = await hold({ worker: proxy.port });
    proxy.cut();
    expect((await sink.failed()).worker).toBe('Disconnected');
  });

  it('aborts the work for a caller that is gone without a word', async () => {
    const { incoming, plane } = await hold({ caller: proxy.port });
    proxy.cut();
    await waitUntil(() => {
      incoming.tokens(0, [3], 0, 1);
      return incoming.signal.aborted;
    });
    expect(plane.activeStreams).toBe(0);
  });

  it('ends a stream whose other side hears nothing any more', async () => {
    const { sink } = await hold({ worker: proxy.port });
    proxy.stall();
    expect((await sink.failed()).worker).toBe('Disconnected');
  });

  it('fails in time when there is no server', async () => {
    await server.kill();
    const sink = new RecordingSink();
    const caller = open(server.port, 'a-shared-token', 100);
    caller.call({ nats_tcp: 'dynamo_backend.generate-2a' }, { id: 'r1', headers: {}, body: {} }, sink);
    expect((await sink.failed()).worker).toBe('CannotConnect');
  });

  it('fails at once when no process serves the endpoint, and for a transport of another plane', async () => {
    const caller = open();
    for (const transport of [{ nats_tcp: 'dynamo_backend.generate-2b' }, { tcp: '127.0.0.1:1/2a/a/b/c' }]) {
      const sink = new RecordingSink();
      caller.call(transport, { id: 'r1', headers: {}, body: {} }, sink);
      expect((await sink.failed()).worker).toBe('CannotConnect');
    }
  });

  it('keeps strangers out by the plane token', async () => {
    const plane = await open().serve({ instanceId: '2a' });
    const transport = plane.handle(ENDPOINT, (call) => call.end());
    const sink = new RecordingSink();
    open(server.port, 'another-token').call(transport, { id: 'r1', headers: {}, body: {} }, sink);
    expect((await sink.failed()).worker).toBe('CannotConnect');
  });

  it('waits with serving for the server, until told not to', async () => {
    await server.kill();
    const abort = new AbortController();
    const serving = open().serve({ instanceId: '2a', signal: abort.signal });
    abort.abort(new Error('enough'));
    await expect(serving).rejects.toThrow('enough');
  });
});
