import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { afterEach, describe, expect, it } from 'vitest';
import { issueKey, KeyGate } from '../../../../shared/access/index.ts';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { defaultHttpSettings } from '../../../support/http-settings.ts';
import { MemoryKeyStore } from '../../../support/memory-key-store.ts';
import { playTexts } from '../../../support/scripted-pipeline.ts';
import { readTlsFixture } from '../../../support/tls-fixtures.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { waitUntil } from '../../../support/wait-until.ts';
import { CREATE, closeServers, idOf, openServer, SocketClient } from './socket-bed.ts';

afterEach(closeServers);

const completed = (text: string) => ({
  type: 'response.completed',
  response: { status: 'completed', output: [{ content: [{ text }] }] },
});
const failed = (status: number, code: string, param: string | null = null) => ({
  type: 'error',
  status,
  error: { code, param },
});

describe('Responses over WebSocket', () => {
  it('tells the events that the stream over HTTP tells', async () => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port).opened();
    client.send(CREATE);
    await waitUntil(() => client.events.some(({ type }) => type === 'response.completed'));
    const body = JSON.stringify({ ...CREATE, type: undefined, stream: true });
    const headers = { 'content-type': 'application/json' };
    const streamed = await fetch(`${server.url}/v1/responses`, { method: 'POST', headers, body });
    const types = (await streamed.text()).match(/(?<=^event: ).*/gm);
    expect(client.events.map(({ type }) => type)).toEqual(types);
    expect(client.events.map(({ sequence_number: number }) => number)).toEqual(types?.map((_, at) => at));
    expect(client.events.at(-1)).toMatchObject(completed('hello'));
  });

  it('tells in the first event of each response what was left out of its request', async () => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port).opened();
    const told = async (event: object): Promise<readonly unknown[]> => {
      client.send({ ...CREATE, ...event });
      await waitUntil(() => client.events.some(({ type }) => type === 'response.completed'));
      return client.events.splice(0).map(({ type, headers }) => [type, headers]);
    };
    const dropped = { warning: '299 - "hosted tools are not supported and were dropped: web_search"' };
    const [first, ...others] = await told({ tools: [{ type: 'web_search' }] });
    expect(first).toEqual(['response.created', dropped]);
    expect(others).toEqual(others.map((event) => [(event as readonly unknown[])[0], undefined]));
    expect((await told({}))[0]).toEqual(['response.created', undefined]);
    const foreign = [
      { type: 'mcp_list_tools', id: 'l', server_label: 's', tools: [] },
      { role: 'user', content: 'hi' },
    ];
    expect((await told({ input: foreign }))[0]).toEqual([
      'response.created',
      { warning: expect.stringContaining('mcp_list_tools') },
    ]);
  });

  it('refuses tools of an unknown type as HTTP does', async () => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port).opened();
    const refused = failed(400, 'invalid_value', 'tools[0].type');
    expect(await client.ask({ ...CREATE, tools: [{ type: 'frobnicate' }] })).toMatchObject(refused);
    expect(await client.ask(CREATE)).toMatchObject(completed('hello'));
  });

  it('answers the official Node client', async () => {
    const { server } = await openServer();
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' });
    const client = new ResponsesWS(openai);
    const text = await new Promise<string>((resolve, reject) => {
      client.on('error', reject);
      client.on('response.completed', ({ response }) => resolve(JSON.stringify(response.output)));
      client.send({ type: 'response.create', model: 'm', input: 'hi' });
    });
    client.close();
    expect(text).toContain('"text":"hello"');
  });

  it.each(['/v1/responses', '/responses', '/v1/responses/', '/v1/responses?x=1'])('is served at %s', async (path) => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port, {}, [], path).opened();
    expect(await client.ask(CREATE)).toMatchObject(completed('hello'));
  });

  it.each(['/v1/chat/completions', '/v1/models', '/health'])('gets 426 at %s, which has no WebSocket', async (path) => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port, {}, [], path).opened();
    expect(client.refused?.status).toBe(path === '/v1/chat/completions' ? 426 : 200);
  });

  it('gets 426 if a proxy has removed the upgrade', async () => {
    const { server } = await openServer();
    const headers = { 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==', 'sec-websocket-version': '13' };
    const response = await fetch(`${server.url}/v1/responses`, { headers });
    expect(response.status).toBe(426);
    expect(await response.json()).toMatchObject({ error: { code: 'websocket_not_supported' } });
  });

  it('follows a response that was not stored, with its new input alone', async () => {
    const { server, pipeline } = await openServer();
    const client = await new SocketClient(server.port).opened();
    const first = await client.ask(CREATE);
    expect((first.response as JsonObject).store).toBe(false);
    const second = await client.ask({ ...CREATE, input: 'and then?', previous_response_id: idOf(first) });
    expect(second).toMatchObject(completed('hello'));
    const prompt = JSON.stringify(pipeline.calls[1]?.request.prompt);
    expect(prompt).toMatch(/hi.*hello.*and then\?/);
    // Only the most recent one is remembered, and on its own connection alone.
    const missing = failed(400, 'previous_response_not_found', 'previous_response_id');
    expect(await client.ask({ ...CREATE, previous_response_id: idOf(first) })).toMatchObject(missing);
    const other = await new SocketClient(server.port).opened();
    expect(await other.ask({ ...CREATE, previous_response_id: idOf(second) })).toMatchObject(missing);
  });

  it('is served by TLS', async () => {
    const [cert, key] = [readTlsFixture('first.crt'), readTlsFixture('first.key')];
    const { server } = await openServer({ tls: { cert, key } });
    const client = await new SocketClient(server.port, { ca: cert }).opened();
    expect(await client.ask(CREATE)).toMatchObject(completed('hello'));
  });

  it('tells operators how many are open', async () => {
    const { server, deps } = await openServer();
    const open = async () => (await deps.metrics.render()).match(/^stator_frontend_websockets (\d+)$/m)?.[1];
    expect(await open()).toBe('0');
    const [one, two] = [await new SocketClient(server.port).opened(), await new SocketClient(server.port).opened()];
    await waitUntil(async () => (await open()) === '2');
    one.socket.close();
    await waitUntil(async () => (await open()) === '1');
    two.socket.terminate();
    await waitUntil(async () => (await open()) === '0');
  });

  it('forgets what a failed turn followed', async () => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port).opened();
    const first = await client.ask(CREATE);
    const next = { ...CREATE, previous_response_id: idOf(first) };
    expect(await client.ask({ ...next, temperature: 99 })).toMatchObject(failed(400, 'invalid_value', 'temperature'));
    expect(await client.ask(next)).toMatchObject(failed(400, 'previous_response_not_found', 'previous_response_id'));
    expect(await client.ask(CREATE)).toMatchObject(completed('hello'));
  });

  it('follows a stored response on another connection', async () => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port).opened();
    const first = await client.ask({ ...CREATE, store: true });
    client.socket.close();
    const other = await new SocketClient(server.port).opened();
    expect(await other.ask({ ...CREATE, previous_response_id: idOf(first) })).toMatchObject(completed('hello'));
  });

  it('prepares a response without generating one', async () => {
    const { server, pipeline } = await openServer();
    const client = await new SocketClient(server.port).opened();
    const ready = await client.ask({ ...CREATE, generate: false });
    expect(ready).toMatchObject({ type: 'response.completed', response: { output: [], usage: { total_tokens: 0 } } });
    expect(pipeline.calls).toHaveLength(0);
    await client.ask({ ...CREATE, input: 'go', previous_response_id: idOf(ready) });
    expect(JSON.stringify(pipeline.calls[0]?.request.prompt)).toMatch(/hi.*go/);
  });

  it('answers one event after the other', async () => {
    const { server, pipeline } = await openServer({ play: () => {} });
    const client = await new SocketClient(server.port).opened();
    client.send({ ...CREATE, input: 'one' });
    client.send({ ...CREATE, input: 'two' });
    const { sink } = await pipeline.call(0);
    expect(pipeline.calls).toHaveLength(1);
    playTexts(sink, ['first']);
    expect(await client.ended()).toMatchObject(completed('first'));
    playTexts((await pipeline.call(1)).sink, ['second']);
    expect(await client.ended()).toMatchObject(completed('second'));
  });

  it.each([
    ['{', 400, 'invalid_json', null],
    ['[]', 400, 'invalid_value', null],
    ['null', 400, 'invalid_value', null],
    ['{"model":"m"}', 400, 'missing_required_parameter', 'type'],
    ['{"type":"session.update"}', 400, 'invalid_value', 'type'],
    [JSON.stringify({ ...CREATE, background: true }), 400, 'unsupported_parameter', 'background'],
    [JSON.stringify({ ...CREATE, stream_id: 'a' }), 400, 'unsupported_parameter', 'stream_id'],
    [JSON.stringify({ ...CREATE, generate: 'no' }), 400, 'invalid_value', 'generate'],
    [JSON.stringify({ ...CREATE, model: 'other' }), 404, 'model_not_found', 'model'],
  ])('tells what is wrong with %s, and goes on', async (text, status, code, param) => {
    const { server } = await openServer();
    const client = await new SocketClient(server.port).opened();
    client.socket.send(text);
    expect(await client.ended()).toMatchObject(failed(status, code, param));
    expect(await client.ask(CREATE)).toMatchObject(completed('hello'));
  });

  it('cancels the work when its client leaves', async () => {
    const { server, pipeline } = await openServer({ play: ({ sink }) => sink.text(0, 'he', 1) });
    const client = await new SocketClient(server.port).opened();
    client.send(CREATE);
    const { options } = await pipeline.call(0);
    await waitUntil(() => client.events.length > 2);
    client.socket.terminate();
    await waitUntil(() => options.signal.aborted);
  });

  it('ends after 60 minutes, once its response is over', async () => {
    const clock = new VirtualClock();
    const { server, pipeline } = await openServer({ play: () => {}, socketClock: clock });
    const client = await new SocketClient(server.port).opened();
    client.send(CREATE);
    const { sink } = await pipeline.call(0);
    for (let minute = 0; minute < 61; minute++) {
      client.socket.ping(); // it lives
      await new Promise((resolve) => client.socket.once('pong', resolve));
      await clock.advance(30_000);
      await clock.advance(30_000);
    }
    expect(client.closed).toBeUndefined();
    playTexts(sink, ['late']);
    expect(await client.ended()).toMatchObject(completed('late'));
    expect(await client.ended()).toMatchObject(failed(400, 'websocket_connection_limit_reached'));
    await waitUntil(() => client.closed !== undefined);
  });
});

describe('a drain', () => {
  it('lets a response on a WebSocket end, and closes the others at once', async () => {
    const { server, pipeline } = await openServer({ play: () => {} });
    const [client, idle] = [new SocketClient(server.port), new SocketClient(server.port)];
    await Promise.all([client.opened(), idle.opened()]);
    client.send(CREATE);
    const { sink } = await pipeline.call(0);
    const closing = server.close(60_000);
    await waitUntil(() => idle.closed !== undefined);
    expect(idle.closed?.code).toBe(1001);
    expect(client.closed).toBeUndefined();
    playTexts(sink, ['to the end']);
    expect(await client.ended()).toMatchObject(completed('to the end'));
    await closing;
    await waitUntil(() => client.closed !== undefined);
    expect(client.closed?.code).toBe(1001);
  });

  it('tells a response that the grace is too short for that it has failed', async () => {
    const { server, pipeline } = await openServer({ play: ({ sink }) => sink.text(0, 'he', 1) });
    const client = await new SocketClient(server.port).opened();
    client.send(CREATE);
    await pipeline.call(0);
    await waitUntil(() => client.events.length > 2);
    await server.close(50);
    expect(await client.ended()).toMatchObject({ type: 'response.failed' });
    await waitUntil(() => client.closed !== undefined);
  });
});

describe('who may open one', () => {
  it.each([
    ['a program without an origin', {}, undefined],
    ['its own page', { origin: 'http://127.0.0.1:PORT' }, undefined],
    ['a page of another origin', { origin: 'https://evil.example' }, 403],
    ['a page that may', { origin: 'https://good.example' }, undefined],
    ['a program that shows a key', { origin: 'https://x.example', authorization: 'Bearer x' }, undefined],
    ['a name that was made to resolve to this machine', { host: 'evil.example' }, 403],
  ])('%s', async (_, headers: Readonly<Record<string, string>>, status) => {
    const { server } = await openServer({
      settings: { ...defaultHttpSettings, hosts: [], corsOrigins: ['https://good.example'] },
    });
    const filled = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, value.replace('PORT', String(server.port))]),
    );
    const client = await new SocketClient(server.port, { headers: filled }).opened();
    expect(client.refused?.status).toBe(status);
  });

  it('no page that makes a key up where none is asked for', async () => {
    const { server } = await openServer();
    const headers = { origin: 'https://evil.example' };
    const client = await new SocketClient(server.port, { headers }, ['openai-insecure-api-key.x']).opened();
    expect(client.refused).toMatchObject({ status: 403, body: { error: { code: 'insufficient_permissions' } } });
  });

  it('keys, shown as a header or among the sub-protocols, and each response counts', async () => {
    const store = new MemoryKeyStore();
    const gate = new KeyGate({ store, clock: systemClock, freshMs: 60_000 });
    const limits = { requestsPerMinute: 1 };
    const issue = async (name: string) =>
      (await issueKey(store, systemClock, { name, scopes: ['inference'], limits })).text;
    const { server } = await openServer({ gate });
    const none = await new SocketClient(server.port).opened();
    expect(none.refused).toMatchObject({ status: 401, body: { error: { code: 'invalid_api_key' } } });
    const headers = { authorization: `Bearer ${await issue('a')}` };
    const client = await new SocketClient(server.port, { headers }).opened();
    expect(await client.ask(CREATE)).toMatchObject(completed('hello'));
    const over = await client.ask(CREATE);
    expect(over).toMatchObject({
      ...failed(429, 'rate_limit_exceeded'),
      headers: { 'retry-after': expect.any(String) },
    });
    const page = await new SocketClient(server.port, {}, [
      'realtime',
      `openai-insecure-api-key.${await issue('b')}`,
    ]).opened();
    expect(page.socket.protocol).toBe('realtime');
    expect(await page.ask(CREATE)).toMatchObject(completed('hello'));
  });

  it('no client while the service drains', async () => {
    const { server } = await openServer({ stage: 'draining' });
    const client = await new SocketClient(server.port).opened();
    expect(client.refused?.status).toBe(503);
  });
});
