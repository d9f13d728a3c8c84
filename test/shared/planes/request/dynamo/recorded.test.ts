import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { DynamoPlane } from '../../../../../shared/planes/request/dynamo/plane.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { dialHome, StandInDynamoWorker } from '../../../../support/stand-in-dynamo-worker.ts';

/** Answers of a mock worker of Dynamo, from its dial to its sentinel, as bytes in base64. */
interface Recorded {
  readonly release: string;
  readonly answers: readonly {
    readonly codec: 'json' | 'msgpack';
    readonly subject: string;
    readonly home: string;
  }[];
}

const file = new URL('../../../../fixtures/dynamo/wire/1.6.1.json', import.meta.url);
const { release, answers } = JSON.parse(readFileSync(file, 'utf8')) as Recorded;

describe(`answers recorded from a worker of Dynamo ${release}`, () => {
  it.each(answers)('in $codec are read as their worker meant them', async ({ codec, subject, home }) => {
    const worker = await StandInDynamoWorker.start({ codec });
    const plane = new DynamoPlane({
      clock: systemClock,
      observer: silentObserver,
      home: { host: '127.0.0.1', port: 0, handshakeTimeoutMs: 3000, messageBytesMax: 1 << 20 },
      requests: {
        connectTimeoutMs: 5000,
        requestTimeoutMs: 5000,
        poolSizeMax: 1,
        requestsPerConnectionMax: 10,
        idleAfterMs: 60_000,
      },
      openNats: () => {
        throw new Error('no NATS here');
      },
      natsTimeoutMs: 5000,
    });
    try {
      const sink = new RecordingSink();
      plane.call(worker.transport, { id: 'r', headers: {}, body: { model: 'qwen3' } }, sink);
      const request = await worker.request();
      const bytes = Buffer.from(home, 'base64').toString('latin1').replace(subject, request.home.subject);
      const line = await dialHome(request.home.address);
      line.raw(Buffer.from(bytes, 'latin1'));
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
      const ids = sink.events.flatMap((event) => {
        if (event.kind === 'tokens') return event.ids;
        return event.kind === 'output' ? (event.output.token_ids ?? []) : [];
      });
      expect(ids).toHaveLength(4);
      const last = sink.events.at(-2);
      expect(last).toMatchObject({
        kind: 'output',
        output: { finish_reason: 'length', completion_usage: { prompt_tokens: 40, completion_tokens: 4 } },
      });
      line.socket.destroy();
    } finally {
      await plane.close();
      await worker.close();
    }
  });
});
