import { once } from 'node:events';
import http2 from 'node:http2';
import { type ChannelCredentials, Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../shared/clock/index.ts';
import {
  decodeMessage,
  encodeMessage,
  file_health,
  framed,
  type GrpcCall,
  type GrpcMethod,
  type GrpcServer,
  type GrpcServerOptions,
  GrpcStatus,
  HealthService,
  openGrpcServer,
  reflectionMethods,
  unary,
} from '../../../shared/grpc/index.ts';
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
} from '../../../shared/grpc/messages/generated/health_pb.js';
import {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from '../../../shared/grpc/messages/generated/reflection_pb.js';
import { waitUntil } from '../../support/index.ts';

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

const ECHO: GrpcMethod = unary('/t.T/Echo', (message) => message);

/** Repeats every message of the stream, and says `over` at its end. */
const REPEAT: GrpcMethod = {
  path: '/t.T/Repeat',
  serve: (call) => {
    const next = (): void =>
      call.receive((message) => {
        if (message === undefined) return call.end();
        call.write(framed(message));
        next();
      });
    next();
  },
};

async function open(methods: readonly GrpcMethod[], options: Partial<GrpcServerOptions> = {}): Promise<GrpcServer> {
  const given = { host: '127.0.0.1', port: 0, clock: systemClock, random: seededRandom(1), methods, ...options };
  const server = await openGrpcServer(given);
  opened.push({ close: () => server.close(0) });
  return server;
}

function clientOf(
  { port }: GrpcServer,
  options: object = {},
  channel: ChannelCredentials = credentials.createInsecure(),
) {
  const client = new Client(`localhost:${port}`, channel, { 'grpc.max_receive_message_length': -1, ...options });
  opened.push(client);
  return client;
}

const same = (bytes: Buffer): Buffer => bytes;

/** Resolves with the response, or the failure. */
function ask(
  client: Client,
  path: string,
  message: Buffer,
  options: { readonly deadline?: number; readonly metadata?: Metadata } = {},
): Promise<Buffer | ServiceError> {
  return new Promise((resolve) => {
    const { deadline, metadata = new Metadata() } = options;
    const limits = deadline === undefined ? {} : { deadline };
    client.makeUnaryRequest(path, same, same, message, metadata, limits, (error, response) => {
      resolve(error ?? response ?? Buffer.alloc(0));
    });
  });
}

describe('a gRPC server', () => {
  it('answers a call of one message, however long it is up to the limit', async () => {
    const client = clientOf(await open([ECHO], { messageBytesMax: 1 << 20 }));
    for (const length of [0, 1, 100, 16_384, 1 << 20]) {
      const message = Buffer.alloc(length, 7);
      expect(message.equals((await ask(client, '/t.T/Echo', message)) as Buffer), `${length} bytes`).toBe(true);
    }
    expect(await ask(client, '/t.T/Echo', Buffer.alloc((1 << 20) + 1))).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: 'Received message larger than max (1048577 vs 1048576)',
    });
    expect((await ask(client, '/t.T/Echo', Buffer.from('on it goes'))).toString()).toBe('on it goes');
  });

  it('says of a path without a handler, and of a compressed call, what is wrong', async () => {
    const server = await open([ECHO]);
    expect(await ask(clientOf(server), '/t.T/None', Buffer.alloc(0))).toMatchObject({
      code: status.UNIMPLEMENTED,
      details: 'The server does not implement the method /t.T/None',
    });
    const gzip = clientOf(server, { 'grpc.default_compression_algorithm': 2 });
    expect(await ask(gzip, '/t.T/Echo', Buffer.alloc(100))).toMatchObject({
      code: status.UNIMPLEMENTED,
      details: "Content is compressed with `gzip` which isn't supported",
    });
  });

  it('tells the status that a method throws or rejects with, whatever letters it has', async () => {
    const words = 'käse 100 % ✓\n"quoted"';
    const failing = (path: string, serve: () => never | Promise<never>): GrpcMethod => unary(path, serve);
    const thrown = failing('/t.T/Throws', () => {
      throw new GrpcStatus(9, words);
    });
    const rejected = failing('/t.T/Rejects', () => Promise.reject(new GrpcStatus(9, words)));
    const client = clientOf(await open([thrown, rejected]));
    expect(await ask(client, '/t.T/Throws', Buffer.alloc(0))).toMatchObject({ code: 9, details: words });
    expect(await ask(client, '/t.T/Rejects', Buffer.alloc(0))).toMatchObject({ code: 9, details: words });
  });

  it('keeps the messages of a stream in order, and reads no further than it is asked to', async () => {
    let received = 0;
    const calls: GrpcCall[] = [];
    const held: GrpcMethod = { path: '/t.T/Held', serve: (call) => void calls.push(call) };
    const client = clientOf(await open([REPEAT, held], { messageBytesMax: 8 << 20 }));
    const repeat = client.makeBidiStreamRequest('/t.T/Repeat', same, same);
    const seen: string[] = [];
    repeat.on('data', (message: Buffer) => seen.push(message.toString()));
    for (let at = 0; at < 500; at++) repeat.write(Buffer.from(`message ${at}`));
    repeat.end();
    await once(repeat, 'end');
    expect(seen).toEqual(Array.from({ length: 500 }, (_, at) => `message ${at}`));
    const slow = client.makeBidiStreamRequest('/t.T/Held', same, same);
    slow.on('error', () => {});
    let isTaken = 0;
    for (let at = 0; at < 20; at++) slow.write(Buffer.alloc(400_000), () => isTaken++);
    await waitUntil(() => calls.length === 1, { timeoutMs: 5000, what: 'the call to come' });
    await waitUntil(() => isTaken > 0, { timeoutMs: 5000, what: 'the first message to leave' });
    expect(isTaken).toBeLessThan(6); // a window of the server, and what the client's socket holds
    calls[0]!.receive(() => {
      received++;
    });
    await waitUntil(() => received === 1, { timeoutMs: 5000, what: 'one message' });
    slow.cancel();
  });

  it('tells a method that its client gives no more time, once, also one that looks later, and ends the call', async () => {
    const heard: string[] = [];
    let served: GrpcCall | undefined;
    const never: GrpcMethod = {
      path: '/t.T/Never',
      serve: (call) => {
        served = call;
        const unwatch = call.watch({ late: () => heard.push('nobody'), left: () => heard.push('nobody') });
        call.watch({ late: () => heard.push('late'), left: () => heard.push('left') });
        unwatch();
      },
    };
    const server = await open([never]);
    // A client that says how long it waits, and leaves it to the server to end the call.
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    opened.push(session);
    const head = {
      ':method': 'POST',
      ':path': '/t.T/Never',
      'content-type': 'application/grpc',
      'grpc-timeout': '50m',
    };
    const [response] = await once(session.request(head), 'response');
    expect(response).toMatchObject({ 'grpc-status': String(status.DEADLINE_EXCEEDED) });
    await waitUntil(() => heard.length === 2, { timeoutMs: 5000, what: 'the deadline at the server' });
    served?.watch({ late: () => heard.push('late again'), left: () => heard.push('left again') });
    expect(heard).toEqual(['late', 'left', 'late again']);
  });

  it('tells a method that its client has gone, by cancelling or with its connection', async () => {
    let [come, gone] = [0, 0];
    const waits: GrpcMethod = {
      path: '/t.T/Waits',
      serve: (call) => {
        come++;
        call.closed.addEventListener('abort', () => gone++);
      },
    };
    const server = await open([waits]);
    const call = clientOf(server).makeUnaryRequest('/t.T/Waits', same, same, Buffer.alloc(0), () => {});
    await waitUntil(() => come === 1, { timeoutMs: 5000, what: 'the call' });
    call.cancel();
    await waitUntil(() => gone === 1, { timeoutMs: 5000, what: 'the method to hear of it' });
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    session.on('error', () => {});
    session
      .request({ ':method': 'POST', ':path': '/t.T/Waits', 'content-type': 'application/grpc' })
      .on('error', () => {});
    await waitUntil(() => come === 2, { timeoutMs: 5000, what: 'the second call' });
    session.destroy();
    await waitUntil(() => gone === 2, { timeoutMs: 5000, what: 'the method to hear of that' });
  });

  it('announces the windows, the streams and the header list that it was given', async () => {
    const { port } = await open([ECHO], {
      streamWindowBytes: 3 << 20,
      connectionWindowBytes: 16 << 20,
      concurrentStreamsMax: 77,
    });
    const session = http2.connect(`http://127.0.0.1:${port}`);
    opened.push(session);
    await once(session, 'remoteSettings');
    expect(session.remoteSettings).toMatchObject({
      initialWindowSize: 3 << 20,
      maxConcurrentStreams: 77,
      maxHeaderListSize: 16_384,
    });
    await waitUntil(() => session.state.remoteWindowSize === 16 << 20, { timeoutMs: 5000, what: 'the window' });
  });

  it('refuses a head of more than 16 KiB and serves on', async () => {
    const server = await open([ECHO]);
    const metadata = new Metadata();
    metadata.set('x-long', 'a'.repeat(20_000));
    const client = clientOf(server);
    expect(await ask(client, '/t.T/Echo', Buffer.alloc(0), { metadata })).toBeInstanceOf(Error);
    expect(await ask(clientOf(server), '/t.T/Echo', Buffer.from('on'))).toEqual(Buffer.from('on'));
  });

  it('lives through floods of cancelled streams', async () => {
    const server = await open([ECHO]);
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    session.on('error', () => {});
    for (let at = 0; at < 5000 && !session.destroyed; at++) {
      const stream = session.request({ ':method': 'POST', ':path': '/t.T/Echo', 'content-type': 'application/grpc' });
      stream.on('error', () => {});
      stream.close(http2.constants.NGHTTP2_CANCEL);
    }
    expect((await ask(clientOf(server), '/t.T/Echo', Buffer.from('still there'))).toString()).toBe('still there');
    session.destroy();
  });

  it('waits for a slow reader, whose window is one byte, and keeps little of what it has not read', async () => {
    let written = 0;
    const pours: GrpcMethod = {
      path: '/t.T/Pours',
      serve: (call) => {
        const more = (): void => {
          while (!call.isBlocked() && written < 64 << 20 && !call.closed.aborted) {
            call.write(framed(Buffer.alloc(1000)));
            written += 1000;
          }
          if (!call.closed.aborted) call.onUnblocked(more);
        };
        more();
      },
    };
    const { port } = await open([pours]);
    const session = http2.connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 1 } });
    opened.push({ close: () => session.destroy() });
    const stream = session.request({ ':method': 'POST', ':path': '/t.T/Pours', 'content-type': 'application/grpc' });
    stream.on('error', () => {});
    await once(stream, 'response');
    stream.end();
    await waitUntil(() => written > 0, { timeoutMs: 5000, what: 'the first bytes' });
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(written).toBeLessThan(200_000);
  });

  it('tells who watches that it goes, asks clients to leave, and lets calls end', async () => {
    let release: (() => void) | undefined;
    const slow = unary(
      '/t.T/Slow',
      () =>
        new Promise<Buffer>((resolve) => {
          release = () => resolve(Buffer.from('done'));
        }),
    );
    const health = new HealthService((service) => (service === '' ? true : undefined));
    const server = await open([slow, ...health.methods]);
    const client = clientOf(server);
    const call = client.makeServerStreamRequest(
      '/grpc.health.v1.Health/Watch',
      same,
      same,
      Buffer.from(encodeMessage(HealthCheckRequestSchema, { service: '' })),
    );
    const states: number[] = [];
    call.on('data', (message: Buffer) => states.push(decodeMessage(HealthCheckResponseSchema, message).status));
    const ended = once(call, 'end');
    const response = ask(client, '/t.T/Slow', Buffer.alloc(0));
    await waitUntil(() => states.length === 1 && release !== undefined, { timeoutMs: 5000, what: 'both calls' });
    health.shutDown();
    await ended;
    expect(states).toEqual([1, 2]);
    const closed = server.close(10_000);
    release?.();
    expect((await response).toString()).toBe('done');
    await closed;
  });

  it('cuts calls that outlast the grace', async () => {
    const never: GrpcMethod = { path: '/t.T/Never', serve: () => {} };
    const server = await open([never]);
    const response = ask(clientOf(server), '/t.T/Never', Buffer.alloc(0));
    await new Promise((resolve) => clientOf(server).waitForReady(Date.now() + 5000, resolve));
    await server.close(50);
    expect(await response).toMatchObject({ code: status.UNAVAILABLE });
  });
});

describe('health checks', () => {
  it('know the process and services by name, and say NOT_FOUND of others; a watcher hears of changes', async () => {
    let isReady: boolean | undefined = false;
    const health = new HealthService((service) => (service === '' ? true : isReady));
    const client = clientOf(await open(health.methods));
    const check = async (service: string): Promise<number | undefined> => {
      const request = Buffer.from(encodeMessage(HealthCheckRequestSchema, { service }));
      const response = await ask(client, '/grpc.health.v1.Health/Check', request);
      return response instanceof Error ? -response.code : decodeMessage(HealthCheckResponseSchema, response).status;
    };
    expect(await check('')).toBe(1);
    expect(await check('m')).toBe(2);
    const request = Buffer.from(encodeMessage(HealthCheckRequestSchema, { service: 'm' }));
    const watch = client.makeServerStreamRequest('/grpc.health.v1.Health/Watch', same, same, request);
    watch.on('error', () => {});
    const states: number[] = [];
    watch.on('data', (message: Buffer) => states.push(decodeMessage(HealthCheckResponseSchema, message).status));
    await waitUntil(() => states.length === 1, { timeoutMs: 5000, what: 'the first state' });
    isReady = true;
    health.changed();
    health.changed();
    await waitUntil(() => states.length === 2, { timeoutMs: 5000, what: 'the change' });
    isReady = undefined;
    health.changed();
    await waitUntil(() => states.length === 3, { timeoutMs: 5000, what: 'the end of the service' });
    expect(states).toEqual([2, 1, 3]);
    expect(await check('m')).toBe(-status.NOT_FOUND);
    expect(await ask(client, '/grpc.health.v1.Health/Check', Buffer.from([0xff]))).toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining('failed to decode Protobuf message'),
    });
    watch.cancel();
  });
});

describe('reflection', () => {
  it.each(['v1', 'v1alpha'])('lists services and describes them (%s)', async (version) => {
    const client = clientOf(await open(reflectionMethods([file_health])));
    const call = client.makeBidiStreamRequest(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      (message: object) => Buffer.from(encodeMessage(ServerReflectionRequestSchema, message)),
      (bytes: Buffer) => decodeMessage(ServerReflectionResponseSchema, bytes),
    );
    const responses: { messageResponse: { case: string | undefined; value?: unknown } }[] = [];
    call.on('data', (response) => responses.push(response));
    const asked = (messageRequest: object): boolean => call.write({ messageRequest });
    asked({ case: 'listServices', value: '' });
    asked({ case: 'fileContainingSymbol', value: 'grpc.health.v1.Health.Check' });
    asked({ case: 'fileByFilename', value: 'none.proto' });
    call.end();
    await once(call, 'end');
    expect(responses.map(({ messageResponse }) => messageResponse.case)).toEqual([
      'listServicesResponse',
      'fileDescriptorResponse',
      'errorResponse',
    ]);
    expect(responses[0]!.messageResponse.value).toMatchObject({ service: [{ name: 'grpc.health.v1.Health' }] });
  });
});
