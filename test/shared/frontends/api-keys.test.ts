import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { issueKey, KeyGate, type KeyRecord, RequestNames } from '../../../shared/access/index.ts';
import type { NewKey } from '../../../shared/access/keys/key-store.ts';
import { systemClock } from '../../../shared/clock/index.ts';
import { createHttpApp } from '../../../shared/frontends/http/app.ts';
import { routesOf } from '../../../shared/frontends/http/route-table.ts';
import type { HttpSettings } from '../../../shared/frontends/http/settings.ts';
import { startHttpServer } from '../../../shared/frontends/node/server.ts';
import type { GenerationRequest } from '../../../shared/protocol/index.ts';
import type { JsonObject } from '../../support/dynamo-http/records.ts';
import { createTestApp } from '../../support/http-app.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';
import { MemoryKeyStore } from '../../support/memory-key-store.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { waitUntil } from '../../support/wait-until.ts';

const ADMIN = 'an-admin-key-of-thirty-two-or-more-characters';
const ELSEWHERE = '203.0.113.7';
const CHAT = { model: 'm', messages: [{ role: 'user', content: 'x' }] };

function bed(settings: Partial<HttpSettings> = {}) {
  const store = new MemoryKeyStore();
  const gate = new KeyGate({ store, clock: systemClock, freshMs: 60_000 });
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['hello']));
  const all = { anthropic: { isEnabled: true, stripsPreamble: true }, adminKey: ADMIN, ...settings };
  const test = createTestApp({ pipeline, gate, settings: all, names: new RequestNames('shared') });
  const make = async (wanted: Partial<NewKey> = {}) =>
    (await issueKey(store, systemClock, { name: 'test', scopes: ['inference'], limits: {}, ...wanted })).text;
  const ask = (method: string, path: string, { key, body, headers = {}, peer = ELSEWHERE }: Ask = {}) =>
    Promise.resolve(
      test.app.fetch(
        new Request(`http://localhost${path}`, {
          method,
          headers: {
            'content-type': 'application/json',
            ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
            ...headers,
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
        { peer },
      ),
    );
  return { ...test, pipeline, make, ask };
}

interface Ask {
  readonly key?: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly peer?: string;
}

const OPEN = new Set([
  '/health',
  '/live',
  '/metrics',
  '/ping',
  '/',
  '/openapi.json',
  '/docs',
  '/docs/',
  '/docs/:file',
  '/console',
  '/console/',
  '/console/:file',
]);

describe('where API keys are asked for', () => {
  const settings = { ...defaultHttpSettings, anthropic: { isEnabled: true, stripsPreamble: true } };

  it.each(routesOf(settings).map(({ pattern, methods }) => [pattern, [...methods][0]!] as const))(
    '%s refuses strangers, unless it is open',
    async (pattern, method) => {
      const { ask } = bed();
      const path = pattern.replace(/:id\{[^}]*\}/, 'resp_1').replace(':file', 'index.css');
      const response = await ask(method, path, method === 'POST' ? { body: CHAT } : {});
      if (OPEN.has(pattern)) {
        expect(response.status).not.toBe(401);
        return;
      }
      expect(response.status).toBe(401);
      const body = await response.json();
      if (path.startsWith('/v1/messages')) {
        expect(body).toMatchObject({ type: 'error', error: { type: 'authentication_error' } });
      } else {
        expect(body).toMatchObject({
          error: { type: 'invalid_request_error', code: 'invalid_api_key', param: null, message: /^No API key/ },
        });
      }
    },
  );

  it('leaves readiness open, of models that a key may ask and others', async () => {
    const { ask } = bed();
    expect((await ask('GET', '/v1/models/m/ready')).status).not.toBe(401);
    expect((await ask('GET', '/health?ready=m')).status).not.toBe(401);
  });

  it('closes metrics and the page where the settings say so', async () => {
    const { ask, make } = bed({ metricsAuth: true, docsAuth: true });
    const [client, scraper, admin] = [
      await make(),
      await make({ scopes: ['metrics'] }),
      await make({ scopes: ['admin'] }),
    ];
    for (const path of ['/metrics', '/', '/docs/', '/openapi.json']) expect((await ask('GET', path)).status).toBe(401);
    expect((await ask('GET', '/metrics', { key: client })).status).toBe(403);
    expect((await ask('GET', '/openapi.json', { key: client })).status).toBe(200);
    for (const key of [scraper, admin, ADMIN]) expect((await ask('GET', '/metrics', { key })).status).toBe(200);
    expect((await ask('GET', '/metrics', { peer: '127.0.0.1' })).status).toBe(200); // its operator's machine
  });

  it('steers the fleet for admin keys, the admin key and its own machine alone', async () => {
    const { ask, make } = bed();
    const [client, admin] = [await make(), await make({ scopes: ['admin'] })];
    const path = '/busy_threshold';
    expect((await ask('GET', path, { key: client })).status).toBe(403);
    for (const key of [admin, ADMIN]) expect((await ask('GET', path, { key })).status).toBe(200);
    expect((await ask('GET', path, { peer: '127.0.0.1' })).status).toBe(200);
    expect((await ask('POST', '/v1/chat/completions', { key: admin, body: CHAT })).status).toBe(403);
    expect((await ask('POST', '/v1/chat/completions', { key: ADMIN, body: CHAT })).status).toBe(401);
  });

  it('asks its own machine for a key to generate', async () => {
    const { ask } = bed();
    expect((await ask('POST', '/v1/chat/completions', { body: CHAT, peer: '127.0.0.1' })).status).toBe(401);
  });

  it('does not read the body of who may not send one', async () => {
    const { ask } = bed();
    const response = await ask('POST', '/v1/chat/completions', { key: 'sk-stator-wrong', body: { nonsense: true } });
    expect(response.status).toBe(401);
  });
});

describe('a request under a key', () => {
  it('is logged under the key’s name, and its worker told the owner that a client cannot choose', async () => {
    const { ask, make, lines, pipeline } = bed();
    const key = await make({ name: 'ci', owner: 'team-a' });
    const headers = { 'x-dynamo-meta-x-stator-owner': 'team-b', 'x-dynamo-meta-color': 'blue' };
    expect((await ask('POST', '/v1/chat/completions', { key, body: CHAT, headers })).status).toBe(200);
    const { request } = await pipeline.call(0);
    expect(request.metadata).toEqual({ 'x-stator-owner': 'team-a', color: 'blue' });
    const line = lines.find(({ message }) => message === 'request completed');
    expect(JSON.stringify(line)).toContain('team-a');
    expect(JSON.stringify(line)).toContain('"key_name":"ci"');
    expect(JSON.stringify(lines)).not.toContain(key.slice(-43));
  });

  it('may ask its models alone, and sees no other', async () => {
    const { ask, make } = bed();
    const key = await make({ models: ['other'] });
    const refused = await ask('POST', '/v1/chat/completions', { key, body: CHAT });
    expect([refused.status, await refused.json()]).toMatchObject([
      403,
      { error: { code: 'insufficient_permissions', param: 'model' } },
    ]);
    const messages = await ask('POST', '/v1/messages', { key, body: { ...CHAT, max_tokens: 5 } });
    expect([messages.status, await messages.json()]).toMatchObject([403, { error: { type: 'permission_error' } }]);
    const all = (await (await ask('GET', '/v1/models', { key: await make() })).json()) as JsonObject;
    expect(all).toMatchObject({ data: expect.arrayContaining([expect.objectContaining({ id: 'm' })]) });
    expect(await (await ask('GET', '/v1/models', { key })).json()).toEqual({ object: 'list', data: [] });
    const one = await ask('GET', '/v1/models/m', { key });
    expect(one.status).toBe(404);
    expect(await one.text()).not.toContain('Available');
  });

  it('tells what is left of its budget, and is refused beyond it with the time to wait', async () => {
    const { ask, make } = bed();
    const key = await make({ limits: { requestsPerMinute: 1 } });
    const first = await ask('POST', '/v1/chat/completions', { key, body: CHAT });
    expect(first.headers.get('x-ratelimit-remaining-requests')).toBe('0');
    const second = await ask('POST', '/v1/chat/completions', { key, body: CHAT });
    expect([second.status, await second.json()]).toMatchObject([
      429,
      { error: { type: 'rate_limit_error', code: 'rate_limit_exceeded' } },
    ]);
    expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(50);
    expect(second.headers.get('x-ratelimit-limit-requests')).toBe('1');
    const messages = await ask('POST', '/v1/messages', { key, body: { ...CHAT, max_tokens: 5 } });
    expect([messages.status, await messages.json()]).toMatchObject([429, { error: { type: 'rate_limit_error' } }]);
    expect((await ask('GET', '/v1/models', { key })).status).toBe(200);
  });

  it('pays for the tokens of its answers', async () => {
    const { ask, make } = bed();
    const key = await make({ limits: { tokensPerDay: 1 } });
    expect((await ask('POST', '/v1/chat/completions', { key, body: CHAT })).status).toBe(200);
    const refused = await ask('POST', '/v1/chat/completions', { key, body: CHAT });
    expect([refused.status, await refused.json()]).toMatchObject([429, { error: { code: 'insufficient_quota' } }]);
  });

  it('never starts if its client leaves while its key is looked up', async () => {
    const store = new MemoryKeyStore();
    const { text, record } = await issueKey(store, systemClock, { name: 'slow', scopes: ['inference'], limits: {} });
    let answer: (() => void) | undefined;
    const slow = Object.assign(store, {
      get: () =>
        new Promise<KeyRecord>((resolve) => {
          answer = () => resolve(record);
        }),
    });
    let reads = 0;
    const gate = new KeyGate({ store: slow, clock: systemClock, freshMs: 0, onRead: () => reads++ });
    const { deps, lifecycle, lines } = createTestApp({ gate });
    const app = createHttpApp(deps);
    const server = await startHttpServer(app, { host: '127.0.0.1', port: 0, lifecycle });
    const request = connect(server.port, '127.0.0.1');
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${text}\r\n`;
    request.write(`${head}content-length: 1000\r\n\r\n{`);
    await waitUntil(() => answer !== undefined, { what: 'a look for the key' });
    const left = new Promise((resolve) => request.once('close', resolve));
    request.destroy();
    await left;
    await (await fetch(`${server.url}/live`)).text(); // by now the server has seen it
    answer?.();
    await waitUntil(() => reads > 0, { what: 'the key' });
    await (await fetch(`${server.url}/live`)).text();
    expect(lifecycle.inflight).toBe(0);
    expect(lines.filter(({ message }) => message === 'request completed')).toEqual([]);
    await server.close(0);
  });
});

describe('what one owner made', () => {
  it('is read, followed and deleted by its keys alone', async () => {
    const { ask, make } = bed();
    const [mine, ours, theirs] = [await make({ owner: 'a' }), await make({ owner: 'a' }), await make({ owner: 'b' })];
    const body = { model: 'm', input: 'x' };
    const made = (await (await ask('POST', '/v1/responses', { key: mine, body })).json()) as JsonObject;
    const path = `/v1/responses/${made.id}`;
    for (const [method, at] of [
      ['GET', path],
      ['GET', `${path}/input_items`],
      ['POST', `${path}/cancel`],
      ['DELETE', path],
    ] as const) {
      expect([at, (await ask(method, at, { key: theirs })).status]).toEqual([at, 404]);
    }
    const follow = { model: 'm', input: 'y', previous_response_id: made.id };
    expect((await ask('POST', '/v1/responses', { key: theirs, body: follow })).status).toBe(404);
    expect((await ask('POST', '/v1/responses', { key: ours, body: follow })).status).toBe(200);
    expect((await ask('GET', path, { key: ours })).status).toBe(200);
    expect((await ask('DELETE', path, { key: ours })).status).toBe(200);
  });

  it('is cancelled by its keys alone, under any of its ids', async () => {
    const { ask, make, pipeline } = bed();
    const [mine, theirs] = [await make({ owner: 'a' }), await make({ owner: 'b' })];
    pipeline.onGenerate(() => {});
    const answer = ask('POST', '/v1/chat/completions', { key: mine, body: { ...CHAT, stream: true } });
    const { sink, request } = await pipeline.call(0);
    sink.text(0, 'hello', 1);
    const response = await answer;
    const reader = response.body!.getReader();
    const [, id = ''] = /"id":"([^"]+)"/.exec(new TextDecoder().decode((await reader.read()).value)) ?? [];
    for (const each of [id, request.id, `chatcmpl-${request.id}`]) {
      expect([each, (await ask('POST', `/v1/cancel/${each}`, { key: theirs })).status]).toEqual([each, 404]);
    }
    expect((await ask('POST', `/v1/cancel/${id}`, { key: mine })).status).toBe(200);
  });
});

describe('what answers under keys tell of the cache', () => {
  const CACHED = { promptTokens: 10, completionTokens: 1, cachedTokens: 8 };

  async function told(cacheIsolation: HttpSettings['cacheIsolation'], body: object, path = '/v1/chat/completions') {
    const { ask, make, pipeline } = bed({ cacheIsolation });
    const key = await make({ owner: 'a' });
    pipeline.onGenerate(({ sink, request }) => {
      sink.text(0, 'hello', 1);
      sink.end({ ...CACHED, ...(request.hidesCache === true && { hidesCache: true }) }, true);
    });
    const response = await ask('POST', path, { key, body });
    const { request } = await pipeline.call(0);
    return { text: await response.text(), request: request as GenerationRequest };
  }

  it.each([
    ['/v1/chat/completions', CHAT],
    ['/v1/chat/completions', { ...CHAT, stream: true, stream_options: { include_usage: true } }],
    ['/v1/completions', { model: 'm', prompt: 'x' }],
    ['/v1/responses', { model: 'm', input: 'x' }],
    ['/v1/messages', { ...CHAT, max_tokens: 5 }],
  ])('is no figure of it, on %s', async (path, body) => {
    expect((await told('figures', body, path)).text).not.toMatch(/cached_tokens":8|cache_read_input_tokens":8/);
    expect((await told('off', body, path)).text).toMatch(/cached_tokens":8|cache_read_input_tokens":8/);
  });

  it('is neither where a request went nor what its engine says of it', async () => {
    const body = { ...CHAT, nvext: { extra_fields: ['worker_id', 'engine_data', 'timing'] } };
    expect((await told('figures', body)).request.extraFields).toEqual(['timing']);
    expect((await told('off', body)).request.extraFields).toEqual(['worker_id', 'engine_data', 'timing']);
  });

  it('is all of it where owners share no blocks, whatever salt a client asks for', async () => {
    const saltOf = async (cache_salt?: string) =>
      (await told('blocks', { ...CHAT, cache_salt })).request.routing.cache_salt;
    expect([await saltOf(), await saltOf('b')]).toEqual(['a ', 'a b']);
    expect((await told('blocks', CHAT)).text).toContain('"cached_tokens":8');
    expect((await told('figures', CHAT)).request.routing.cache_salt).toBeUndefined();
  });
});

describe('a path in another spelling', () => {
  it('counts as the path of its route for what a key may use', async () => {
    const { ask, make } = bed();
    const chats = await make({ routes: ['/v1/chat/completions'] });
    const others = await make({ routes: ['/chat/*', '/v1/chat/completions/'] });
    for (const path of ['/v1/chat/completions', '/v1/chat/completions/', '/chat/completions']) {
      expect((await ask('POST', path, { body: CHAT })).status).toBe(401);
      expect((await ask('POST', path, { body: CHAT, key: chats })).status).toBe(200);
      expect((await ask('POST', path, { body: CHAT, key: others })).status).toBe(403);
    }
  });

  it('asks for a key as its route does', async () => {
    const { ask } = bed();
    for (const path of ['/models', '/v1/models/', '/version', '/version/']) {
      expect([path, (await ask('GET', path)).status]).toEqual([path, 401]);
    }
    for (const path of ['/tokenize', '/detokenize/']) expect((await ask('POST', path, { body: {} })).status).toBe(401);
    for (const path of ['/ping', '/ping/', '/live/']) expect((await ask('GET', path)).status).toBe(200);
  });
});
