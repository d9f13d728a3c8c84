import { describe, expect, it } from 'vitest';
import type { EndpointRecord } from '../../../shared/discovery/records.ts';
import { createTestApp } from '../../support/http-app.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const NOT_READY = {
  isReady: false,
  reason: 'no namespace has all required worker types live',
  namespaces: {
    dynamo: {
      isReady: false,
      reason: 'missing worker types: prefill',
      workerTypes: { decode: { workers: 1, needs: [['prefill']] } },
      missingWorkerTypes: ['prefill'],
    },
  },
};

const models = [servedModel('half', { readiness: NOT_READY }), servedModel('org/foo/ready'), servedModel('org/m')];

function setUp(on = models) {
  return createTestApp({ pipeline: new ScriptedPipeline(on).onGenerate(({ sink }) => playTexts(sink, ['a'])) });
}

async function get(test: ReturnType<typeof createTestApp>, path: string, init: RequestInit = {}) {
  const response = await test.app.fetch(new Request(`http://localhost${path}`, init));
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text === '' ? undefined : JSON.parse(text) };
}

describe('GET /', () => {
  it('says where things are, to programs and to browsers', async () => {
    const test = createTestApp({ settings: { paths: { ...defaultHttpSettings.paths, models: '/own/models' } } });
    const { status, body } = await get(test, '/');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: 'stator',
      console: '/console',
      docs: '/docs',
      openapi: '/openapi.json',
      models: '/own/models',
    });
    for (const path of [body.docs, body.openapi, body.models, body.health, body.metrics]) {
      expect((await test.app.fetch(new Request(`http://localhost${path}`))).status, path).toBeLessThan(400);
    }
    const page = await test.app.fetch(new Request('http://localhost/', { headers: { accept: 'text/html,*/*' } }));
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const links = [...(await page.text()).matchAll(/<a href="([^"]+)"/g)].map(([, href]) => href);
    expect(links).toEqual(['console', 'docs', 'openapi.json', 'own/models', 'health', 'metrics']);
  });
});

describe('paths that end in a slash', () => {
  it('have what stands below them where it is without one, with failures of their dialect', async () => {
    const paths = { ...defaultHttpSettings.paths, models: '/own/models/', messages: '/own/messages/' };
    const settings = { paths, anthropic: { isEnabled: true, stripsPreamble: false } };
    const test = createTestApp({ pipeline: new ScriptedPipeline(models), settings });
    expect((await get(test, '/own/models/org/m')).body).toMatchObject({ id: 'org/m' });
    expect((await get(test, '/own/models/')).body).toMatchObject({ object: 'list' });
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'org/m', messages: [{ role: 'user', content: 'hi' }] });
    const counted = await get(test, '/own/messages/count_tokens', { method: 'POST', headers, body });
    expect(counted.body).toHaveProperty('input_tokens');
    expect((await get(test, '/own/messages/none')).body).toMatchObject({ type: 'error' });
  });
});

describe('two routes at one path', () => {
  const served = { isEnabled: true, stripsPreamble: false };
  const refusalOf = (moved: Partial<typeof defaultHttpSettings.paths>, isMessagesServed = true) => {
    const anthropic = { ...served, isEnabled: isMessagesServed };
    return () => createTestApp({ settings: { paths: { ...defaultHttpSettings.paths, ...moved }, anthropic } });
  };

  it.each([
    [{ chat: '/x', completions: '/x' }, 'DYN_HTTP_SVC_CHAT_PATH_ENV and DYN_HTTP_SVC_CMP_PATH_ENV are both at /x'],
    [{ health: '/metrics' }, 'DYN_HTTP_SVC_HEALTH_PATH_ENV and DYN_HTTP_SVC_METRICS_PATH_ENV are both at /metrics'],
    [
      { responses: '/v1/models' },
      'DYN_HTTP_SVC_RESPONSES_PATH_ENV and DYN_HTTP_SVC_MODELS_PATH_ENV are both at /v1/models',
    ],
    [{ chat: '/docs' }, 'DYN_HTTP_SVC_CHAT_PATH_ENV and a fixed route are both at /docs'],
    [{ live: '/openapi.json' }, 'DYN_HTTP_SVC_LIVE_PATH_ENV and a fixed route are both at /openapi.json'],
    [{ embeddings: '/v1/images/edits' }, 'DYN_HTTP_SVC_EMB_PATH_ENV and a fixed route are both at /v1/images/edits'],
    [{ live: '/busy_threshold' }, 'DYN_HTTP_SVC_LIVE_PATH_ENV and a fixed route are both at /busy_threshold'],
    [
      { messages: '/v1/completions' },
      'DYN_HTTP_SVC_CMP_PATH_ENV and DYN_HTTP_SVC_ANTHROPIC_PATH_ENV are both at /v1/completions',
    ],
    [{ health: '/v1/cancel/x' }, 'DYN_HTTP_SVC_HEALTH_PATH_ENV /v1/cancel/x lies where /v1/cancel/{id} is'],
    [{ live: '/v1/models/live' }, 'DYN_HTTP_SVC_LIVE_PATH_ENV /v1/models/live lies where /v1/models/{id} is'],
  ])('end the start by their names: %j', (moved, message) => {
    expect(refusalOf(moved)).toThrow(message);
  });

  it('do not conflict if one of them is not served, or if their sub-paths differ', () => {
    expect(refusalOf({ messages: '/v1/completions' }, false)).not.toThrow();
    expect(
      refusalOf({ models: '/a', responses: '/b', chat: '/a-b', health: '/healthz', metrics: '/m/x' }),
    ).not.toThrow();
    expect(refusalOf({})).not.toThrow();
  });
});

describe('a model that no worker serves', () => {
  const chat = (model: string, on = models) =>
    get(setUp(on), '/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }),
    });
  const embedder = servedModel('emb', { card: { ...servedModel('emb').card, model_type: ['Embedding'] } });

  it('is named, with those that are served and the one that was meant', async () => {
    const { status, body } = await chat('org/n');
    expect(status).toBe(404);
    expect(body.error).toEqual({
      message: 'Model not found: `org/n`. Did you mean `org/m`? Served here: org/foo/ready, org/m.',
      type: 'invalid_request_error',
      param: 'model',
      code: 'model_not_found',
    });
    expect((await get(setUp(), '/v1/models/org/n')).body.error.message).toContain('Did you mean `org/m`?');
  });

  it('is answered with the names of only the models that take such requests', async () => {
    const { body } = await chat('emb', [...models, embedder]);
    expect(body.error.message).toBe(
      'Model not found: `emb`. It takes no chat requests. Served here: org/foo/ready, org/m.',
    );
    const none = await chat('x', [embedder]);
    expect(none.body.error).toMatchObject({
      message: 'Model not found: `x`. No model that is served here takes chat requests. For others: emb.',
      param: 'model',
    });
  });

  it('is another one than a model whose second worker set takes such requests', async () => {
    const mixed = servedModel('mixed', { card: embedder.card, otherSets: [servedModel('mixed')] });
    const { body } = await chat('org/x', [mixed]);
    expect(body.error.message).toBe('Model not found: `org/x`. Served here: mixed.');
    const found = await chat('mixed', [mixed]);
    expect(found.status).toBe(200);
  });

  it('is answered briefly, however many models there are and however long the name is', async () => {
    const many = Array.from({ length: 5000 }, (_, at) => servedModel(`adapter-${at}`));
    const { body } = await chat('x'.repeat(200_000), many);
    expect(body.error.message).toMatch(/adapter-9 and 4990 more\.$/);
    expect(body.error.message.length).toBeLessThan(400);
  });
});

describe('GET /v1/models', () => {
  it('lists the models that can be served', async () => {
    const { body } = await get(setUp(), '/v1/models');
    expect(body.data.map((model: { id: string }) => model.id)).toEqual(['org/foo/ready', 'org/m']);
    expect(body.data[1]).toMatchObject({
      object: 'model',
      owned_by: 'stator',
      root: 'org/m',
      parent: null,
      max_model_len: 4096,
      context_window: 4096,
    });
  });

  it('has an empty catalog beside the list for codex, which takes a list without one for broken', async () => {
    const { body } = await get(setUp(), '/v1/models?client_version=0.145.0');
    expect(body.models).toEqual([]);
    expect(body.data).toHaveLength(2);
    expect((await get(setUp(), '/v1/models')).body).not.toHaveProperty('models');
  });

  it('says since when a model is there, the same at every time, and leaves out a context length that no worker states', async () => {
    const unknown = servedModel('vague', { contextLength: 0, createdSecs: 1_234 });
    const clock = new VirtualClock();
    const test = createTestApp({ pipeline: new ScriptedPipeline([unknown]), clock });
    const first = await get(test, '/v1/models/vague');
    expect(first.body).toEqual({
      id: 'vague',
      object: 'model',
      created: 1_234,
      owned_by: 'stator',
      root: 'vague',
      parent: null,
    });
    await clock.advance(90_000);
    expect((await get(test, '/v1/models')).body.data).toEqual([first.body]);
  });

  it.each(['/v1/models/org/m', '/v1/models/org%2Fm', '/v1/models/org/foo/ready'])('finds %s', async (path) => {
    expect((await get(setUp(), path)).status).toBe(200);
  });

  it.each([
    ['/v1/models/org/m/ready', 200, true],
    ['/v1/models/half/ready', 503, false],
    ['/v1/models/org/foo/ready/ready', 200, true],
    ['/health?ready=org/m', 200, true],
    ['/health?ready=half', 503, false],
  ])('%s is %i', async (path, status, ready) => {
    expect(await get(setUp(), path)).toMatchObject({ status, body: { ready } });
  });

  it('tells what a model that is not ready lacks', async () => {
    const { body } = await get(setUp(), '/v1/models/half/ready');
    expect(body).toEqual({
      model: 'half',
      ready: false,
      reason: NOT_READY.reason,
      namespaces: {
        dynamo: {
          ready: false,
          reason: 'missing worker types: prefill',
          worker_types: { decode: { workers: 1, needs: [['prefill']] } },
          present: ['decode'],
          missing_worker_types: ['prefill'],
        },
      },
    });
    const { status, headers } = await get(setUp(), '/v1/models/half');
    expect([status, headers.get('retry-after')]).toEqual([503, '5']);
  });

  it.each(['/v1/models/nope', '/v1/models/nope/ready', '/health?ready=nope', '/v1/models/%ff'])(
    'does not know %s',
    async (path) => {
      expect(await get(setUp(), path)).toMatchObject({ status: 404, body: { error: { code: 'model_not_found' } } });
    },
  );

  it('refuses a model that is not ready before it looks at the body', async () => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const body = JSON.stringify({ model: 'half', messages: [], foo: 1 });
    expect(await get(setUp(), '/v1/chat/completions', { ...init, body })).toMatchObject({ status: 503 });
  });
});

describe('GET /health', () => {
  const endpoint: EndpointRecord = {
    type: 'Endpoint',
    namespace: 'dynamo',
    component: 'backend',
    endpoint: 'generate',
    instance_id: 'ffffffffffffffff',
    transport: { tcp: '127.0.0.1:1/x' },
  };

  it('lists endpoints with ids of 64 bits exact', async () => {
    const records = [endpoint, { ...endpoint, instance_id: '1' }];
    const { text, body } = await get(createTestApp({ instances: () => records }), '/health');
    expect(body).toMatchObject({ status: 'healthy', endpoints: ['dyn://dynamo.backend.generate'] });
    expect(text).toContain('"instance_id":18446744073709551615,');
  });

  it('says of a worker that its KV events are missing', async () => {
    const records = [
      { ...endpoint, kv_events: 'missing' as const },
      { ...endpoint, instance_id: '1' },
    ];
    const { body } = await get(createTestApp({ instances: () => records }), '/health');
    const { instances } = body as { readonly instances: readonly object[] };
    expect(instances[0]).toMatchObject({ kv_events: 'missing' });
    expect(instances[1]).not.toHaveProperty('kv_events');
  });

  it('looks at each of 1,000 endpoints once, however often it is asked', async () => {
    let looks = 0;
    const counted = (at: number): EndpointRecord => ({
      ...endpoint,
      get instance_id() {
        looks++;
        return at.toString(16);
      },
    });
    let records: readonly EndpointRecord[] = Array.from({ length: 1000 }, (_, at) => counted(at));
    const test = createTestApp({ instances: () => records });
    for (let probe = 0; probe < 20; probe++) expect((await get(test, '/health')).status).toBe(200);
    expect(looks).toBe(1000);
    records = records.slice(1);
    const { instances } = (await get(test, '/health')).body as { instances: unknown[] };
    expect(instances).toHaveLength(999);
  });
});

describe('the stages of a process', () => {
  it.each([
    ['discovering', { status: 'not_ready' }, 503, 200],
    ['waiting', { status: 'not_ready', stage: 'waiting', message: 'Waiting for workers: 1 of 2 exist' }, 503, 200],
    ['ready', { status: 'healthy' }, 200, 200],
    ['draining', { status: 'not_ready', stage: 'draining', message: 'Service is not ready' }, 503, 503],
    ['stopping', { status: 'shutting_down', message: 'Service is shutting down' }, 503, 503],
  ] as const)('%s shows in /health and /live', async (stage, body, health, live) => {
    const test = createTestApp({ stage });
    expect(await get(test, '/health')).toMatchObject({ status: health, body });
    expect(await get(test, '/live')).toMatchObject({ status: live });
  });

  it.each(['waiting', 'draining', 'stopping'] as const)(
    '%s refuses requests before their body is read',
    async (stage) => {
      const test = createTestApp({ stage });
      const bad = { method: 'POST', headers: { 'content-type': 'text/plain' }, body: '{' };
      for (const path of ['/v1/chat/completions', '/v1/completions']) {
        expect(await get(test, path, bad)).toMatchObject({
          status: 503,
          body: { error: { message: 'Service is not ready', code: 'service_unavailable' } },
        });
      }
      expect(await get(test, '/v1/models')).toMatchObject({ status: 503 });
      expect(await get(test, '/v1/models/m/ready')).toMatchObject({ status: 503, body: { ready: false } });
    },
  );
});

describe('routes that are not there', () => {
  it.each([
    ['GET', '/nowhere', 404],
    ['GET', '/v2/models', 404],
    ['GET', '/v1/chat/completions', 405],
    ['OPTIONS', '/v1/completions', 405],
    ['POST', '/metrics', 405],
    ['DELETE', '/v1/models/m', 405],
  ])('%s %s is %i with an envelope', async (method, path, status) => {
    const { body, headers, ...answer } = await get(setUp(), path, { method, headers: { 'x-request-id': 'r' } });
    expect(answer.status).toBe(status);
    expect(body.error.code).toBe(status === 404 ? 'not_found' : 'method_not_allowed');
    expect(headers.get('x-request-id')).toBe('r');
    expect(headers.get('allow')).toBe(status === 404 ? null : /completions$/.test(path) ? 'POST' : 'GET,HEAD');
  });

  it('answers HEAD like GET, without a body', async () => {
    const { status, text, headers } = await get(setUp(), '/live', { method: 'HEAD' });
    expect({ status, text }).toEqual({ status: 200, text: '' });
    expect(headers.get('content-type')).toBe('application/json');
  });

  it('serves metrics as Prometheus text', async () => {
    const response = await setUp().app.fetch(new Request('http://localhost/metrics'));
    expect(response.headers.get('content-type')).toContain('text/plain');
    expect(await response.text()).toContain('# TYPE dynamo_frontend_requests_total counter');
  });

  it('refuses more than 100 header lines', async () => {
    const headers = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`x-h${at}`, 'v']));
    expect(await get(setUp(), '/live', { headers })).toMatchObject({
      status: 431,
      body: { error: { code: 'headers_too_large' } },
    });
  });
});

describe('a route that a setting has switched off or moved', () => {
  const off = { anthropic: { ...defaultHttpSettings.anthropic, isEnabled: false } };
  const moved = (paths: object) => ({ paths: { ...defaultHttpSettings.paths, ...paths } });

  it.each([
    ['POST', '/v1/messages', off, '--enable-anthropic-api (DYN_ENABLE_ANTHROPIC_API=true)'],
    ['POST', '/v1/messages/count_tokens', off, '--enable-anthropic-api'],
    ['POST', '/own/messages', { ...off, ...moved({ messages: '/own/messages' }) }, '--enable-anthropic-api'],
    ['GET', '/busy_threshold', { hasAdminRoutes: false }, 'DYN_DISABLE_FRONTEND_ADMIN_API is set'],
    ['POST', '/clear_kv_blocks', { hasAdminRoutes: false }, 'DYN_DISABLE_FRONTEND_ADMIN_API is set'],
    ['POST', '/router/explain', { hasAdminRoutes: false }, 'DYN_DISABLE_FRONTEND_ADMIN_API is set'],
    [
      'POST',
      '/v1/chat/completions',
      { servesClients: false },
      '--kserve-grpc-server is given, or --roles without http',
    ],
    ['GET', '/v1/responses/resp_1', { servesClients: false }, '--kserve-grpc-server is given'],
    ['POST', '/v1/chat/completions', moved({ chat: '/own/chat' }), 'It is at /own/chat, as DYN_HTTP_SVC_CHAT_PATH'],
    ['GET', '/v1/models/m', moved({ models: '/own/models/' }), 'It is at /own/models/, as DYN_HTTP_SVC_MODELS_PATH'],
  ])('is 404 and says so: %s %s', async (method, path, settings, says) => {
    const { status, body } = await get(createTestApp({ settings }), path, { method });
    expect(status).toBe(404);
    expect(body.error.message).toContain(`Route not found: ${method} ${path}. `);
    expect(body.error.message).toContain(says);
  });

  it('is not told of a path that never is one', async () => {
    const { body } = await get(createTestApp({ settings: off }), '/v1/nothing');
    expect(body.error.message).toBe('Route not found: GET /v1/nothing');
  });
});
