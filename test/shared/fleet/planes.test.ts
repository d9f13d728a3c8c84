import { afterEach, describe, expect, it } from 'vitest';
import { SYSTEM } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { eventPlane } from '../../../shared/fleet/index.ts';
import { callingPlane, servingPlane } from '../../../shared/fleet/planes.ts';
import { silentObserver } from '../../../shared/planes/index.ts';
import type { Logger } from '../../../shared/telemetry/index.ts';
import { countRepeats } from '../../../shared/telemetry/log/repeats.ts';
import { HeldCalls, RecordingSink } from '../../contract/planes/recording-sink.ts';
import { hasNatsServer, type NatsServer, startNatsServer, waitUntil } from '../../support/index.ts';
import { StandInDynamoWorker } from '../../support/stand-in-dynamo-worker.ts';

/** Keeps level and message of every line. */
class LogRecorder implements Logger {
  readonly lines: string[] = [];

  debug(): void {}

  info(message: string): void {
    this.lines.push(`info ${message}`);
  }

  warn(message: string): void {
    this.lines.push(`warn ${message}`);
  }

  error(message: string): void {
    this.lines.push(`error ${message}`);
  }

  with(): Logger {
    return this;
  }
}

it('a worker takes as many streams on a connection as a caller was set to put there', async () => {
  const streams = 1500;
  const env = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_TCP_CHANNEL_BUFFER: String(streams) };
  const serving = await servingPlane(
    resolveConfig('worker', ['--engine=mocker'], env).settings,
    SYSTEM.clock,
    silentObserver,
  );
  const calling = await callingPlane(resolveConfig('frontend', [], env).settings, SYSTEM.clock, silentObserver, {
    poolSizeMax: 1,
  });
  const held = new HeldCalls();
  const server = await serving.serve({ instanceId: '2a' });
  const transport = server.handle('2a/dynamo/backend/generate', held.handler);
  const sinks = Array.from({ length: streams }, (_, at) => {
    const sink = new RecordingSink();
    calling.call(transport, { id: String(at), headers: {}, body: {} }, sink);
    return sink;
  });
  await waitUntil(() => held.calls.length === streams, { what: 'every call at the worker' });
  expect(server.activeStreams).toBe(streams);
  for (const call of held.calls) call.end();
  for (const sink of sinks) expect((await sink.closed()).kind).toBe('end');
  await Promise.all([calling.close(), serving.close()]);
});

it.each([
  ['a caller without the token of the worker', { STATOR_PLANE_TOKEN: 'a'.repeat(32) }, {}],
  ['a caller with a token and a worker without', {}, { STATOR_PLANE_TOKEN: 'a'.repeat(32) }],
  ['a caller with another token', { STATOR_PLANE_TOKEN: 'a'.repeat(32) }, { STATOR_PLANE_TOKEN: 'b'.repeat(32) }],
])('%s: one line at each end, however many requests fail', async (_, atWorker, atCaller) => {
  const [workerLog, callerLog] = [new LogRecorder(), new LogRecorder()];
  const worker = resolveConfig('worker', ['--engine=mocker'], atWorker).settings;
  const serving = await servingPlane(worker, SYSTEM.clock, silentObserver, countRepeats(workerLog, SYSTEM.clock));
  const calling = await callingPlane(
    resolveConfig('frontend', [], atCaller).settings,
    SYSTEM.clock,
    silentObserver,
    {},
    countRepeats(callerLog, SYSTEM.clock),
  );
  const server = await serving.serve({ instanceId: '2a' });
  const { tcp = '' } = server.handle('2a/dynamo/backend/generate', (call) => call.end()) as { tcp?: string };
  const transport = { tcp: tcp.replace(/^.*:/, '127.0.0.1:') };
  for (let at = 0; at < 3; at++) {
    const sink = new RecordingSink();
    calling.call(transport, { id: String(at), headers: {}, body: {} }, sink);
    expect((await sink.failed()).worker).toBe('CannotConnect');
  }
  await server.close();
  await Promise.all([calling.close(), serving.close()]);
  for (const { lines } of [workerLog, callerLog]) {
    expect(lines.length).toBeLessThanOrEqual(1);
    for (const line of lines) expect(line).toBe('warn a peer on the request plane is refused, or refuses');
  }
  expect(callerLog.lines).toHaveLength(1);
});

it('settings of encryption that contradict each other are refused in one line', async () => {
  const calling = (env: Readonly<Record<string, string>>) =>
    callingPlane(resolveConfig('frontend', [], env).settings, SYSTEM.clock, silentObserver);
  await expect(calling({ STATOR_PLANE_TLS: 'on' })).rejects.toThrow(/^STATOR_PLANE_TLS=on .*STATOR_PLANE_TOKEN/);
  await expect(calling({ STATOR_PLANE_TLS: 'off', DYN_TCP_TLS_INSECURE: 'true' })).rejects.toThrow(
    /^STATOR_PLANE_TLS=off contradicts/,
  );
});

it('a worker whose fleet is on this machine alone listens on loopback, until its callers prove themselves', async () => {
  const listening = async (env: Readonly<Record<string, string>>): Promise<unknown> => {
    const plane = await servingPlane(
      resolveConfig('worker', ['--engine=mocker'], env).settings,
      SYSTEM.clock,
      silentObserver,
    );
    const server = await plane.serve({ instanceId: '2a' });
    const transport = server.handle('2a/dynamo/backend/generate', () => {});
    await server.close();
    await plane.close();
    return transport;
  };
  expect(await listening({ DYN_DISCOVERY_BACKEND: 'file' })).toEqual({ tcp: expect.stringMatching(/^127\.0\.0\.1:/) });
  const dynamodb = { DYN_DISCOVERY_BACKEND: 'dynamodb', STATOR_DISCOVERY_TABLE: 't', DYN_EVENT_PLANE: 'zmq' };
  await expect(listening(dynamodb)).rejects.toThrow('STATOR_PLANE_TOKEN');
  await expect(listening({ ...dynamodb, STATOR_PLANE_OPEN: 'on' })).resolves.toBeDefined();
  await expect(listening({ ...dynamodb, STATOR_PLANE_TOKEN: 'a'.repeat(32) })).resolves.toBeDefined();
});

describe.runIf(hasNatsServer())('with NATS_SERVER and nats for both planes', () => {
  let nats: NatsServer | undefined;
  afterEach(() => nats?.stop());

  it('a frontend calls a worker and hears its events', async () => {
    nats = await startNatsServer({ configuration: 'authorization { user: "u", password: "p" }' });
    const env = {
      NATS_SERVER: nats.url,
      NATS_AUTH_USERNAME: 'u',
      NATS_AUTH_PASSWORD: 'p',
      DYN_REQUEST_PLANE: 'nats',
      DYN_EVENT_PLANE: 'nats',
      STATOR_NATS_STREAM_MAX_MB: '16',
    };
    const workerSettings = resolveConfig('worker', ['--engine=mocker'], env).settings;
    const frontendSettings = resolveConfig('frontend', [], env).settings;
    const logger = new LogRecorder();
    const serving = await servingPlane(workerSettings, SYSTEM.clock, silentObserver, logger);
    const calling = await callingPlane(frontendSettings, SYSTEM.clock, silentObserver, {}, logger);
    const server = await serving.serve({ instanceId: '2a' });
    const transport = server.handle('2a/dynamo/backend/generate', (call) => call.end());
    await server.reachable(AbortSignal.timeout(5000));
    const sink = new RecordingSink();
    calling.call(transport, { id: 'r1', headers: {}, body: {} }, sink);
    expect((await sink.closed()).kind).toBe('end');
    expect(transport).toEqual({ nats_tcp: 'dynamo_backend.generate-2a' });

    const discovery = new MemoryDiscovery({ hub: new MemoryHub() });
    const sender = eventPlane(workerSettings, SYSTEM.clock, logger, discovery);
    const receiver = eventPlane(frontendSettings, SYSTEM.clock, logger, discovery);
    expect([sender.name, receiver.name]).toEqual(['nats', 'nats']);
    const scope = { kind: 'component', namespace: 'dynamo', component: 'backend' } as const;
    const log = await receiver.log?.(scope, 'kv-events', AbortSignal.timeout(5000));
    const publisher = await sender.publisher(scope, 'kv-events');
    publisher.publish('stored');
    await waitUntil(async () => (await log?.state(AbortSignal.timeout(5000)))?.lastSequence === 1);
    expect(logger.lines).toEqual([]);
    await Promise.all([calling, serving, sender, receiver].map((plane) => plane.close()));
  });

  it('one line says that NATS is away, and one that it is back', async () => {
    nats = await startNatsServer({ isStarted: false });
    const logger = new LogRecorder();
    const plane = eventPlane(
      resolveConfig('frontend', [], { NATS_SERVER: nats.url, DYN_EVENT_PLANE: 'nats' }).settings,
      SYSTEM.clock,
      logger,
      new MemoryDiscovery({ hub: new MemoryHub() }),
    );
    const heard: unknown[] = [];
    const scope = { kind: 'namespace', namespace: 'dynamo' } as const;
    const publisher = await plane.publisher(scope, 'kv_metrics');
    const subscription = await plane.subscribe(scope, 'kv_metrics', { event: ({ payload }) => heard.push(payload) });
    subscription.connect(publisher.publisherId, publisher.transport);
    publisher.publish('kept');
    await waitUntil(() => logger.lines.length > 0);
    await nats.restart();
    await waitUntil(() => heard.length === 1 && logger.lines.length === 2);
    expect(logger.lines).toEqual(['warn NATS is away', 'info NATS is back']);
    await plane.close();
  });
});

it('a caller takes the plane of each worker from its address', async () => {
  const worker = await StandInDynamoWorker.start();
  const env = { DYN_TCP_RPC_HOST: '127.0.0.1' };
  const serving = await servingPlane(
    resolveConfig('worker', ['--engine=mocker'], env).settings,
    SYSTEM.clock,
    silentObserver,
  );
  const calling = await callingPlane(resolveConfig('frontend', [], env).settings, SYSTEM.clock, silentObserver);
  const server = await serving.serve({ instanceId: '2a' });
  const own = server.handle('2a/dynamo/backend/generate', (call) => {
    call.tokens(0, [1], 0, 1);
    call.end();
  });
  const sinks = [new RecordingSink(), new RecordingSink()] as const;
  const request = { headers: {}, body: { model: 'm' } };
  calling.call(own, { id: 'a', ...request }, sinks[0]);
  calling.call(worker.transport, { id: 'b', ...request }, sinks[1]);
  const line = await (await worker.request()).dial();
  line.prologue();
  line.tokens(2);
  line.end();
  await waitUntil(() => sinks.every(({ events }) => events.at(-1)?.kind === 'end'));
  expect(sinks.map(({ ids }) => ids)).toEqual([[1], [2]]);
  await calling.close();
  await serving.close();
  await worker.close();
});
