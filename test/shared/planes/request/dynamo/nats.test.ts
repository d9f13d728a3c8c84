import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { NatsClient } from '../../../../../shared/planes/index.ts';
import { DynamoPlane } from '../../../../../shared/planes/request/dynamo/plane.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { hasNatsServer, type NatsServer, startNatsServer, waitUntil } from '../../../../support/index.ts';
import { dialHome, type HomeLine, readNatsRequest } from '../../../../support/stand-in-dynamo-worker.ts';

const SUBJECT = 'dynamo_backend.generate-2a';

describe.runIf(hasNatsServer())("Dynamo's request plane over NATS", () => {
  let server: NatsServer;
  let plane: DynamoPlane;
  let worker: NatsClient;

  beforeAll(async () => {
    server = await startNatsServer();
  });
  afterAll(() => server?.stop());
  beforeEach(async () => {
    plane = new DynamoPlane({
      clock: systemClock,
      observer: silentObserver,
      home: { host: '127.0.0.1', port: 0, handshakeTimeoutMs: 3000, messageBytesMax: 8 << 20 },
      requests: {
        connectTimeoutMs: 5000,
        requestTimeoutMs: 5000,
        poolSizeMax: 1,
        requestsPerConnectionMax: 10,
        idleAfterMs: 60_000,
      },
      openNats: () => new NatsClient({ clock: systemClock, servers: [server.url] }),
      natsTimeoutMs: 1000,
    });
    worker = new NatsClient({ clock: systemClock, servers: [server.url] });
    await worker.connected(AbortSignal.timeout(10_000));
  });
  afterEach(async () => {
    await plane.close();
    await worker.close();
  });

  function ask(tokens = 3): RecordingSink {
    const sink = new RecordingSink();
    const request = {
      id: 'r1',
      headers: { traceparent: '00-1-2-01', secret: 's' },
      body: { model: 'm' },
      tokenIds: new Uint32Array(tokens).fill(70_000),
    };
    plane.call({ dynamo_nats_tcp: SUBJECT, dynamo_codec: 'msgpack' }, request, sink);
    return sink;
  }

  it('sends a request to the subject of its worker, which dials with the answer', async () => {
    let line: HomeLine | undefined;
    worker.subscribe(SUBJECT, ({ data, reply }) => {
      worker.send(reply, Buffer.alloc(0));
      const { home, body } = readNatsRequest(data);
      expect(body).toMatchObject({ model: 'm', token_ids: [70_000, 70_000, 70_000] });
      void dialHome(home.address).then((dialled) => {
        line = dialled;
        dialled.header({ subject: home.subject, stream_type: 'response' });
        dialled.prologue();
        dialled.tokens(1, 2);
        dialled.end();
      });
    });
    await worker.flush(AbortSignal.timeout(10_000));
    const sink = ask();
    await waitUntil(() => sink.events.at(-1)?.kind === 'end');
    expect(sink.ids).toEqual([1, 2]);
    line?.socket.destroy();
  });

  it('tells the worker the trace of the request, and no other header of the client', async () => {
    const connection = await worker.connection(AbortSignal.timeout(10_000));
    const received = connection.subscribe(SUBJECT, { max: 1 });
    await connection.flush();
    ask();
    for await (const { headers } of received) {
      expect(headers?.keys().map((name) => [name, headers.get(name)])).toEqual([
        ['request-id', 'r1'],
        ['traceparent', '00-1-2-01'],
      ]);
    }
  });

  it('fails at once if no worker listens', async () => {
    const sink = ask();
    expect((await waitUntil(() => sink.failure)).worker).toBe('CannotConnect');
  });

  it('fails if the worker does not acknowledge in time', async () => {
    worker.subscribe(SUBJECT, () => {});
    await worker.flush(AbortSignal.timeout(10_000));
    const sink = ask();
    expect((await waitUntil(() => sink.failure)).worker).toBe('ConnectionTimeout');
  });

  it('refuses a request that the server would not take, with both sizes', async () => {
    const sink = ask(1_000_000);
    const failure = await waitUntil(() => sink.failure);
    expect(failure.worker).toBe('PayloadTooLarge');
    expect(String(failure.cause)).toMatch(/request of \d+ bytes; the NATS server takes 1048576/);
  });
});
