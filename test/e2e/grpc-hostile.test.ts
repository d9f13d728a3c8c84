import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { framed } from '../../shared/grpc/index.ts';
import { dataFrame, FRAME, openFrame, RawHttp2 } from '../support/grpc/raw-http2.ts';
import { freePort, readChat, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const BUDGET_BYTES = 4 * 1024 * 1024;
const CONNECTIONS_MAX = 16;
const KSERVE = '/inference.GRPCInferenceService';

const fleet = useFleet();
let local: StatorProcess;
let port: number;
let client: Client;

beforeAll(async () => {
  port = await freePort();
  local = await fleet.local(['--num-workers=1', '--speedup-ratio=10', `--grpc-port=${port}`], {
    STATOR_HTTP_BODY_BUDGET_MB: String(BUDGET_BYTES / 1024 / 1024),
    STATOR_GRPC_MAX_CONNECTIONS: String(CONNECTIONS_MAX),
  });
  client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
});
afterAll(() => client?.close());

function ask(path: string, message: Buffer): Promise<Buffer | ServiceError> {
  const same = (bytes: Buffer): Buffer => bytes;
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, same, same, message, (error, answer) => resolve(error ?? answer ?? Buffer.alloc(0)));
  });
}

const bodyBytes = (): Promise<number> => local.metric('stator_frontend_body_bytes');

describe('hostile clients of gRPC', () => {
  it.each(['ModelInfer', 'ModelStreamInfer', 'ModelReady', 'ModelMetadata', 'RepositoryIndex'])(
    'find the room for bodies full with messages of %s that they do not end',
    async (method) => {
      const refusals = (): Promise<number> =>
        local.metric('stator_frontend_limits_reached_total', 'limit="bodies_bytes"');
      const before = await refusals();
      const raw = await RawHttp2.open(port);
      const message = framed(Buffer.alloc(3_000_000, 10));
      for (let stream = 1; stream < 80; stream += 2) {
        raw.write(openFrame(stream, `${KSERVE}/${method}`));
        for (let at = 0; at < 200_000; at += 16_384) raw.write(dataFrame(stream, message.subarray(at, at + 16_384)));
      }
      await waitUntil(() => raw.of(FRAME.headers, 79).length > 0, { what: 'the refusal of the last' });
      expect(await bodyBytes()).toBeGreaterThan(BUDGET_BYTES - 250_000);
      expect(await bodyBytes()).toBeLessThanOrEqual(BUDGET_BYTES);
      expect(await refusals()).toBeGreaterThan(before + 10);
      expect(await ask(`${KSERVE}/${method}`, Buffer.alloc(1_000_000))).toMatchObject({
        code: status.RESOURCE_EXHAUSTED,
      });
      expect(await ask(`${KSERVE}/ServerLive`, Buffer.alloc(0))).toBeInstanceOf(Buffer);
      raw.close();
      await waitUntil(async () => (await bodyBytes()) === 0, { what: 'the room to be given back' });
      expect(await ask(`${KSERVE}/ModelReady`, Buffer.alloc(0))).toBeInstanceOf(Buffer);
    },
  );

  it('that say nothing keep no other client out, however many connections they open', async () => {
    const silent: Socket[] = [];
    for (let at = 0; at < 4 * CONNECTIONS_MAX; at++) {
      const socket = connect({ port, host: '127.0.0.1' });
      socket.on('error', () => {}); // it is one too many
      socket.resume();
      await once(socket, 'connect');
      silent.push(socket);
    }
    await waitUntil(() => silent.filter((socket) => !socket.destroyed).length < CONNECTIONS_MAX + 1, {
      what: 'those that are too many to be closed',
    });
    const other = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    const answer = await new Promise((resolve) => {
      const same = (bytes: Buffer): Buffer => bytes;
      other.makeUnaryRequest(`${KSERVE}/ModelReady`, same, same, Buffer.alloc(0), (error, bytes) =>
        resolve(error ?? bytes),
      );
    });
    other.close();
    expect(answer).toBeInstanceOf(Buffer);
    const chat = { model: 'stator-mini', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 };
    expect(await readChat(local.url, chat)).toMatchObject({ isDone: true });
    for (const socket of silent) socket.destroy();
    expect(await local.metric('stator_frontend_limits_reached_total', 'limit="grpc_connections"')).toBeGreaterThan(40);
  });
});
