import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import type { PlaneServer, RequestPlane, Transport } from '../../../../../shared/planes/index.ts';
import { encodeRecord } from '../../../../../shared/planes/record-codec.ts';
import { FrameType, type FrameTypeCode } from '../../../../../shared/planes/request/frames/frame.ts';
import { createTcpRequestPlane } from '../../../../../shared/planes/request/tcp/plane.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { frameBytes, HELLO_ACK, RawCaller, startRawWorker } from './raw-peer.ts';

const ENDPOINT = '2a/dynamo/backend/generate';
let plane: RequestPlane;
let server: PlaneServer;
let transport: Transport;

beforeAll(async () => {
  plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1' });
  server = await plane.serve({ instanceId: '2a' });
  transport = server.handle(ENDPOINT, (call) => {
    call.tokens(0, [1], 0, 1);
    call.end();
  });
});

afterAll(async () => {
  await server.close();
  await plane.close();
});

const payload = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc
    .constantFrom({}, { id: 'a', endpoint: '2a/dynamo/backend/generate' }, { error: null }, { data: {} }, [])
    .map((record) => encodeRecord(record)),
);
const frames = fc.array(
  fc.record({
    type: fc.constantFrom<FrameTypeCode>(...Object.values(FrameType)),
    streamId: fc.oneof(fc.nat(6), fc.nat({ max: 0xffff_ffff })),
    payload,
  }),
  { minLength: 1, maxLength: 6 },
);

it('a worker survives any frames in any order and goes on serving others', async () => {
  await fc.assert(
    fc.asyncProperty(frames, fc.boolean(), async (sent, isGreeted) => {
      const raw = await RawCaller.connect(transport);
      if (isGreeted) raw.hello();
      for (const each of sent) raw.socket.write(frameBytes(each.type, each.streamId, each.payload));
      raw.socket.end();
      await waitUntil(() => raw.isClosed, { pollMs: 1 });
      const sink = new RecordingSink();
      plane.call(transport, { id: 'r', headers: {}, body: {} }, sink);
      expect((await sink.closed()).kind).toBe('end');
    }),
    { numRuns: 60 },
  );
  await waitUntil(() => server.activeStreams === 0);
});

it('a caller survives any frames in any order, and every stream of it ends', async () => {
  await fc.assert(
    fc.asyncProperty(frames, async (sent) => {
      const worker = await startRawWorker((socket) => {
        socket.once('data', () => {
          socket.write(HELLO_ACK);
          for (const each of sent) socket.write(frameBytes(each.type, each.streamId, each.payload));
          socket.end();
        });
      });
      const sinks = [new RecordingSink(), new RecordingSink()];
      for (const sink of sinks) plane.call(worker.transport, { id: 'r', headers: {}, body: {} }, sink);
      for (const sink of sinks) await sink.closed();
      worker.close();
    }),
    { numRuns: 60 },
  );
});
