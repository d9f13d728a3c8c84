import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type HttpServer, startHttpServer } from '../../../../shared/frontends/node/server.ts';
import { createTestApp, type TestApp } from '../../../support/http-app.ts';
import { waitUntil } from '../../../support/index.ts';
import { playTexts, ScriptedPipeline } from '../../../support/scripted-pipeline.ts';
import { LIVE, postText, RawClient } from './raw-client.ts';

const servers: HttpServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close(0);
});

/** Longer than any test waits: a drain that ends has not waited for it. */
const LONG_MS = 60_000;
/** More than the buffers of a connection hold. */
const MEGABYTES = 12 * 2 ** 20;
const QUESTION = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const STREAMED = { ...QUESTION, stream: true };
const CHAT = '/v1/chat/completions';

async function start(): Promise<TestApp & { readonly server: HttpServer; readonly pipeline: ScriptedPipeline }> {
  const pipeline = new ScriptedPipeline();
  const settings = { anthropic: { isEnabled: true, stripsPreamble: true } };
  const test = createTestApp({ pipeline, settings });
  const { lifecycle } = test;
  const server = await startHttpServer(test.app, { host: '127.0.0.1', port: 0, lifecycle });
  servers.push(server);
  return { ...test, server, pipeline };
}

describe('a drain', () => {
  it('waits for the last byte of an answer that a slow client reads', async () => {
    const { server, pipeline } = await start();
    pipeline.onGenerate(({ sink }) => playTexts(sink, ['x'.repeat(MEGABYTES)]));
    const client = new RawClient(server.port);
    client.socket.pause();
    client.send(postText(CHAT, QUESTION));
    await pipeline.call(0);
    const closing = server.close(LONG_MS);
    client.socket.resume();
    expect(await closing).toEqual({ cut: 0 });
    await waitUntil(() => client.isClosed);
    expect(client.text.length).toBeGreaterThan(MEGABYTES);
    expect(client.text).toMatch(/"total_tokens":\d+[^{]*}}$/);
  });

  it('waits for the last byte of a stream that a slow client reads', async () => {
    const { server, pipeline } = await start();
    const part = 'x'.repeat(2 ** 16);
    pipeline.onGenerate(({ sink }) => playTexts(sink, Array(MEGABYTES / part.length).fill(part)));
    const client = new RawClient(server.port);
    client.socket.pause();
    client.send(postText(CHAT, STREAMED));
    await pipeline.call(0);
    const closing = server.close(LONG_MS);
    client.socket.resume();
    expect(await closing).toEqual({ cut: 0 });
    await waitUntil(() => client.isClosed);
    expect(client.text.endsWith('data: [DONE]\n\n\r\n0\r\n\r\n')).toBe(true);
    expect(client.text.split(part)).toHaveLength(MEGABYTES / part.length + 1);
  });

  it('cuts and counts an answer that a client does not read within the grace', async () => {
    const { server, pipeline } = await start();
    pipeline.onGenerate(({ sink }) => playTexts(sink, ['x'.repeat(MEGABYTES)]));
    const client = new RawClient(server.port);
    client.socket.pause();
    client.send(postText(CHAT, QUESTION));
    await pipeline.call(0);
    expect(await server.close(50)).toEqual({ cut: 1 });
    client.socket.resume();
    await waitUntil(() => client.isClosed);
    expect(client.text.length).toBeLessThan(MEGABYTES);
  });

  it('lets streams end and closes idle connections at once', async () => {
    const { server, pipeline, lifecycle } = await start();
    const [client, idle, silent] = [1, 2, 3].map(() => new RawClient(server.port)) as [RawClient, RawClient, RawClient];
    client.send(postText(CHAT, STREAMED));
    const { sink } = await pipeline.call(0);
    sink.text(0, 'a', 1);
    idle.send(LIVE);
    await waitUntil(() => client.text.includes('"a"') && idle.text !== '');
    const closing = server.close(LONG_MS);
    expect(lifecycle.stage).toBe('draining');
    await waitUntil(() => idle.isClosed);
    expect(client.isClosed).toBe(false);
    await waitUntil(() => silent.isClosed, { what: 'the end of a connection that never asked' });
    playTexts(sink, ['b']);
    expect(await closing).toEqual({ cut: 0 });
    await waitUntil(() => client.isClosed);
    expect(client.text).toContain('[DONE]');
  });

  it('ends at once when there is nothing to wait for', async () => {
    const { server } = await start();
    const [idle, silent] = [new RawClient(server.port), new RawClient(server.port)];
    idle.send(LIVE);
    await waitUntil(() => idle.text !== '');
    expect(await server.close(LONG_MS)).toEqual({ cut: 0 });
    await waitUntil(() => idle.isClosed && silent.isClosed);
  });

  it('answers new requests with 503 and ends their connections', async () => {
    const { server, pipeline } = await start();
    const client = new RawClient(server.port);
    client.send(postText(CHAT, STREAMED));
    const { sink } = await pipeline.call(0);
    sink.text(0, 'a', 1);
    await waitUntil(() => client.text.includes('"a"'));
    const closing = server.close(LONG_MS);
    const late = new RawClient(server.port);
    late.send(postText(CHAT, QUESTION));
    client.send(postText(CHAT, QUESTION)); // on the connection that was kept alive
    await waitUntil(() => late.isClosed);
    expect(late.text).toMatch(/^HTTP\/1\.1 503 /);
    expect(late.text).toMatch(/^connection: close\r$/im);
    expect(late.text).toContain('Service is not ready');
    playTexts(sink, ['b']);
    expect(await closing).toEqual({ cut: 0 });
    await waitUntil(() => client.isClosed);
    const [first = '', second = ''] = client.text.split('[DONE]');
    expect(first).toContain('"b"');
    expect(second).toMatch(/HTTP\/1\.1 503 [\s\S]*connection: close/i);
    expect(pipeline.calls).toHaveLength(1);
  });

  it('says in an answer that begins that its connection ends with it', async () => {
    const { server, pipeline } = await start();
    const client = new RawClient(server.port);
    client.send(postText(CHAT, QUESTION));
    const { sink } = await pipeline.call(0);
    const closing = server.close(LONG_MS);
    playTexts(sink, ['a']);
    expect(await closing).toEqual({ cut: 0 });
    await waitUntil(() => client.isClosed);
    expect(client.text).toMatch(/^HTTP\/1\.1 200 [\s\S]*connection: close/i);
  });

  it('is not held up for longer than its grace by a client that keeps the connection', async () => {
    const { server, pipeline } = await start();
    const client = new RawClient(server.port, true);
    client.send(postText(CHAT, STREAMED));
    const { sink } = await pipeline.call(0);
    sink.text(0, 'a', 1);
    await waitUntil(() => client.text.includes('"a"'));
    const closing = server.close(500);
    playTexts(sink, ['b']);
    expect(await closing).toEqual({ cut: 0 });
    expect(client.text).toContain('[DONE]');
    client.socket.destroy();
  });

  it('closes a connection that sends half a request', async () => {
    const { server } = await start();
    const socket = connect(server.port, '127.0.0.1');
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => undefined); // a reset is a way to close
    await new Promise((resolve) => socket.write('POST /v1/chat/com', resolve));
    expect(await server.close(LONG_MS)).toEqual({ cut: 0 });
    await closed;
  });
});

describe('an answer that a drain cuts', () => {
  it.each([
    ['a chat', CHAT, STREAMED, [/^data: \{"error":\{.*"code":"service_unavailable"\}\}$/m, /^data: \[DONE\]$/m]],
    [
      'a completion',
      '/v1/completions',
      { model: 'm', prompt: 'hi', stream: true },
      [/^data: \{"error":\{.*"code":"service_unavailable"\}\}$/m, /^data: \[DONE\]$/m],
    ],
    ['a response', '/v1/responses', { model: 'm', input: 'hi', stream: true }, [/^event: response\.failed$/m]],
    ['a message', '/v1/messages', { ...STREAMED, max_tokens: 9 }, [/^event: error\ndata: \{"type":"error"/m]],
  ])('ends with the error event of %s', async (_what, path, body, ends) => {
    const { server, pipeline } = await start();
    const client = new RawClient(server.port);
    client.send(postText(path, body));
    const { sink, options } = await pipeline.call(0);
    sink.text(0, 'so far', 1);
    await waitUntil(() => client.text.includes('so far'));
    expect(await server.close(50)).toEqual({ cut: 1 });
    expect(options.signal.aborted).toBe(true);
    await waitUntil(() => client.isClosed);
    for (const end of ends) expect(client.text).toMatch(end);
    expect(client.text).toContain('Service is shutting down');
    expect(client.text.endsWith('\r\n0\r\n\r\n')).toBe(true);
  });

  it('has its status where nothing was sent yet', async () => {
    const { server, pipeline } = await start();
    const client = new RawClient(server.port);
    client.send(postText(CHAT, QUESTION));
    await pipeline.call(0);
    expect(await server.close(50)).toEqual({ cut: 1 });
    await waitUntil(() => client.isClosed);
    expect(client.text).toMatch(/^HTTP\/1\.1 503 /);
    expect(client.text).toMatch(/^retry-after: 1\r$/im);
    expect(client.text).toContain('"message":"Service is shutting down"');
  });

  it('is counted, also before its request has wholly come', async () => {
    const { server, lifecycle } = await start();
    const client = new RawClient(server.port);
    client.send(postText(CHAT, QUESTION).slice(0, -5));
    await waitUntil(() => lifecycle.inflight === 1);
    expect(await server.close(50)).toEqual({ cut: 1 });
    await waitUntil(() => client.isClosed);
  });
});
