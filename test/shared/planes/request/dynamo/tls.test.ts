import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { DynamoPlane } from '../../../../../shared/planes/request/dynamo/plane.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';
import type { PlaneTls } from '../../../../../shared/planes/request/tcp/tls.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { readTlsFixture, waitUntil } from '../../../../support/index.ts';
import { dialHome, StandInDynamoWorker } from '../../../../support/stand-in-dynamo-worker.ts';

const [FIRST, SECOND, CLIENT] = ['first', 'second', 'client'].map((name) => ({
  cert: readTlsFixture(`${name}.crt`),
  key: readTlsFixture(`${name}.key`),
})) as unknown as [Pair, Pair, Pair];

interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** Certificates of this process: `first`, which trusts workers with `client`. */
const HERE: PlaneTls = {
  server: { ...FIRST, clientCa: CLIENT.cert },
  client: { ...FIRST, ca: CLIENT.cert },
};

describe("Dynamo's request plane with mutual TLS", () => {
  let plane: DynamoPlane;
  let worker: StandInDynamoWorker;

  async function start(theirs: Pair): Promise<void> {
    worker = await StandInDynamoWorker.start({ tls: { ...theirs, ca: FIRST.cert } });
    plane = new DynamoPlane({
      clock: systemClock,
      observer: silentObserver,
      home: { host: '127.0.0.1', port: 0, handshakeTimeoutMs: 3000, messageBytesMax: 1 << 20 },
      requests: {
        connectTimeoutMs: 3000,
        requestTimeoutMs: 5000,
        poolSizeMax: 1,
        requestsPerConnectionMax: 10,
        idleAfterMs: 60_000,
      },
      tls: HERE,
      openNats: () => {
        throw new Error('no NATS here');
      },
      natsTimeoutMs: 5000,
    });
  }
  afterEach(async () => {
    await plane.close();
    await worker.close();
  });

  function ask(): RecordingSink {
    const sink = new RecordingSink();
    plane.call(worker.transport, { id: 'r', headers: {}, body: { model: 'm' } }, sink);
    return sink;
  }

  it('carries requests and answers', async () => {
    await start(CLIENT);
    const sink = ask();
    const line = await (await worker.request()).dial();
    line.prologue();
    line.tokens(1, 2);
    line.end();
    await waitUntil(() => sink.events.at(-1)?.kind === 'end');
    expect(sink.ids).toEqual([1, 2]);
  });

  it('calls no worker whose certificate has another authority', async () => {
    await start(SECOND);
    const sink = ask();
    expect((await waitUntil(() => sink.failure)).worker).toBe('CannotConnect');
    expect(worker.requests).toEqual([]);
  });

  it('takes no answer from a connection without a certificate, or without TLS', async () => {
    await start(CLIENT);
    const sink = ask();
    const { home } = await worker.request();
    const plain = await dialHome(home.address);
    plain.header({ subject: home.subject, stream_type: 'response' });
    await waitUntil(() => plain.isClosed);
    const stranger = await dialHome(home.address, 'msgpack', { ...SECOND, ca: FIRST.cert });
    stranger.header({ subject: home.subject, stream_type: 'response' });
    await waitUntil(() => stranger.isClosed);
    expect(sink.events).toEqual([]);
  });

  it('fails at a worker that does not encrypt', async () => {
    await start(CLIENT);
    const plain = await StandInDynamoWorker.start();
    const sink = new RecordingSink();
    plane.call(plain.transport, { id: 'r', headers: {}, body: { model: 'm' } }, sink);
    expect((await waitUntil(() => sink.failure)).worker).toBe('CannotConnect');
    await plain.close();
  });
});
