import { afterEach, describe, expect, it } from 'vitest';
import type { LimitName } from '../../../../shared/errors/index.ts';
import { type HttpServer, startHttpServer } from '../../../../shared/frontends/node/server.ts';
import { createTestApp } from '../../../support/http-app.ts';
import { waitUntil } from '../../../support/index.ts';
import { playTexts, ScriptedPipeline } from '../../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { LIVE, postText, RawClient } from './raw-client.ts';

const servers: HttpServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close(0);
});

async function start() {
  const clock = new VirtualClock();
  const limits: LimitName[] = [];
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
  const test = createTestApp({ pipeline });
  const server = await startHttpServer(test.app, {
    host: '127.0.0.1',
    port: 0,
    lifecycle: test.lifecycle,
    onLimit: (limit) => limits.push(limit),
    clock,
  });
  servers.push(server);
  return { server, clock, limits };
}

const HEAD = 'GET /live HTTP/1.1\r\nhost: t\r\nx-a: ';
const LONG = 'v'.repeat(500_000);
const live = async (client: RawClient): Promise<void> => {
  client.text = '';
  client.send(LIVE);
  await waitUntil(() => client.text.includes('Service is live'));
};

describe('heads that have not come whole', () => {
  it('are bounded all together: the server closes the longest connections and no others', async () => {
    const { server, clock, limits } = await start();
    const idle = new RawClient(server.port);
    await live(idle);
    const short = new RawClient(server.port);
    short.send(HEAD);
    const uploading = new RawClient(server.port);
    const upload = postText('/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: LONG }] });
    uploading.send(upload.slice(0, -1));
    const hostile = Array.from({ length: 50 }, () => new RawClient(server.port));
    for (const client of hostile) client.send(HEAD + LONG);
    const closed = (): number => hostile.filter(({ isClosed }) => isClosed).length;
    await waitUntil(async () => {
      await clock.advance(500);
      return closed() >= 50 - 33; // 16 MiB hold 33 of them
    });
    expect([idle.isClosed, short.isClosed, uploading.isClosed]).toEqual([false, false, false]);
    expect(closed()).toBeLessThan(25);
    expect(limits.filter((limit) => limit === 'unfinished_heads_bytes')).toHaveLength(closed());
    await live(idle);
    uploading.send(upload.slice(-1));
    await waitUntil(() => uploading.text.includes('"chat.completion"'));
    for (const client of [...hostile, idle, short, uploading]) client.socket.destroy();
  });

  it('beyond the length of one are counted', async () => {
    const { server, limits } = await start();
    const client = new RawClient(server.port);
    client.send(HEAD + LONG + LONG);
    await waitUntil(() => client.isClosed);
    expect(client.text).toContain('headers_too_large');
    expect(limits).toEqual(['head_bytes']);
  });
});
