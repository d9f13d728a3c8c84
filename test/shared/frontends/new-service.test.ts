import { describe, expect, it } from 'vitest';
import { ServiceLifecycle } from '../../../shared/frontends/inference/lifecycle.ts';
import { createFrontendMetrics } from '../../../shared/telemetry/index.ts';
import { createTestApp, type TestApp } from '../../support/http-app.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';
import { KserveClient } from '../../support/kserve/kserve-client.ts';
import { startScriptedKserve } from '../../support/kserve/scripted-server.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];
const POSTS = [
  ['/v1/chat/completions', { model: 'm', messages: MESSAGES }],
  ['/v1/chat/completions', { model: 'm', messages: MESSAGES, stream: true }],
  ['/v1/completions', { model: 'm', prompt: 'hi' }],
  ['/v1/embeddings', { model: 'm', input: 'hi' }],
  ['/v1/responses', { model: 'm', input: 'hi' }],
  ['/v1/responses', { model: 'm', input: 'hi', stream: true }],
  ['/v1/images/generations', { model: 'm', prompt: 'hi' }],
  ['/v1/messages', { model: 'm', max_tokens: 9, messages: MESSAGES }],
  ['/v1/messages/count_tokens', { model: 'm', messages: MESSAGES }],
] as const;
const GETS = ['/v1/models', '/v1/models/m', '/v1/models/m/ready', '/health?ready=m'];
const settings = { anthropic: { ...defaultHttpSettings.anthropic, isEnabled: true } };

function post(test: TestApp, path: string, body: object, signal?: AbortSignal): Promise<Response> {
  return test.app.fetch(
    new Request(`http://localhost${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    }),
  );
}

describe.each(['discovering', 'just ready'] as const)('a service that is %s and knows no model', (state) => {
  function setUp(): TestApp {
    const lifecycle = new ServiceLifecycle(new VirtualClock());
    if (state === 'just ready') lifecycle.discovered();
    return createTestApp({ pipeline: new ScriptedPipeline([]), settings, lifecycle });
  }

  it.each(POSTS)('asks to try %s again, since the model may be there in a moment', async (path, body) => {
    const response = await post(setUp(), path, body);
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await response.text()).toContain('knows no model yet');
  });

  it.each(GETS)('asks to try %s again', async (path) => {
    const response = await setUp().app.fetch(new Request(`http://localhost${path}`));
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
  });

  it('says UNAVAILABLE to clients of KServe', async () => {
    const lifecycle = new ServiceLifecycle(new VirtualClock());
    if (state === 'just ready') lifecycle.discovered();
    const models = await startScriptedKserve({ lifecycle });
    const client = new KserveClient(`127.0.0.1:${models.server.port}`);
    const infer = { model_name: 'text', inputs: [] };
    try {
      // Known models are served all the while; then all leave.
      expect((await client.ask('ModelMetadata', [{ name: 'nope' }])).code).toBe(5);
      for (const name of models.names) await models.remove(name);
      for (const [rpc, message] of [
        ['ModelInfer', infer],
        ['ModelStreamInfer', infer],
        ['ModelMetadata', { name: 'text' }],
        ['ModelConfig', { name: 'text' }],
        ['ModelStatistics', { name: 'text' }],
      ] as const) {
        expect([rpc, (await client.ask(rpc, [message])).code]).toEqual([rpc, 14]);
      }
    } finally {
      client.close();
      await models.close();
    }
  });
});

describe('a service that knows no model', () => {
  it('says so for good once workers that were started with it would have been seen', async () => {
    const clock = new VirtualClock();
    const lifecycle = new ServiceLifecycle(clock);
    lifecycle.discovered();
    const test = createTestApp({ pipeline: new ScriptedPipeline([]), settings, lifecycle });
    await clock.advance(5000);
    for (const [path, body] of POSTS) {
      const response = await post(test, path, body);
      if (path.endsWith('count_tokens')) continue; // estimated, whatever the model
      expect([path, response.status]).toEqual([path, 404]);
      expect(await response.text()).toMatch(/Model (?:not found: `m`|'m' not found)/);
    }
    const list = await test.app.fetch(new Request('http://localhost/v1/models'));
    expect([list.status, await list.json()]).toEqual([200, { object: 'list', data: [] }]);
  });

  it('answers of the others while it is new', async () => {
    const lifecycle = new ServiceLifecycle(new VirtualClock());
    lifecycle.discovered();
    const test = createTestApp({ pipeline: new ScriptedPipeline([servedModel('other')]), settings, lifecycle });
    const response = await post(test, '/v1/chat/completions', POSTS[0][1]);
    expect(response.status).toBe(404);
    expect(await response.text()).toContain('Model not found: `m`. Served here: other.');
  });
});

describe('a service that holds requests for its first workers', () => {
  function setUp() {
    const clock = new VirtualClock();
    const metrics = createFrontendMetrics({ clock });
    const lifecycle = new ServiceLifecycle(clock, metrics.limitReached);
    const pipeline = new ScriptedPipeline([servedModel('m')]).onGenerate(({ sink }) => playTexts(sink, ['a']));
    lifecycle.waiting(() => 'Waiting for workers: 0 of 2 are ready', 5000);
    return { clock, lifecycle, metrics, test: createTestApp({ pipeline, settings, lifecycle, metrics }) };
  }

  it('answers them once the workers are there', async () => {
    const { lifecycle, test } = setUp();
    const asked = [
      post(test, '/v1/chat/completions', POSTS[0][1]),
      post(test, '/v1/messages', POSTS[7][1]),
      test.app.fetch(new Request('http://localhost/v1/models')),
    ];
    lifecycle.discovered();
    for (const response of await Promise.all(asked)) expect(response.status).toBe(200);
  });

  it('refuses them after a while, and says when to try again', async () => {
    const { clock, test } = setUp();
    const asked = post(test, '/v1/chat/completions', POSTS[0][1]);
    await clock.advance(5000);
    const response = await asked;
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
  });

  it('holds a bounded number, refuses the others at once, and counts them', async () => {
    const { lifecycle, metrics, test } = setUp();
    const counted = async (): Promise<string | undefined> =>
      /limits_reached_total\{limit="held_requests"\} (\d+)/.exec(await metrics.render())?.[1];
    const asked = Array.from({ length: 256 }, () => post(test, '/v1/chat/completions', POSTS[0][1]));
    expect(await counted()).toBe('0');
    for (const [path, body] of POSTS) {
      const response = await post(test, path, body);
      expect([response.status, response.headers.get('retry-after')], path).toEqual([503, '1']);
    }
    expect(await counted()).toBe(`${POSTS.length}`);
    lifecycle.discovered();
    for (const response of await Promise.all(asked)) expect(response.status).toBe(200);
  });

  it('lets go of a request whose client has left, and of all when it drains', async () => {
    const { lifecycle, test } = setUp();
    const leaving = new AbortController();
    const left = post(test, '/v1/chat/completions', POSTS[0][1], leaving.signal).catch(() => undefined);
    const asked = Array.from({ length: 255 }, () => post(test, '/v1/chat/completions', POSTS[0][1]));
    leaving.abort();
    await left;
    const inItsPlace = post(test, '/v1/chat/completions', POSTS[0][1]);
    lifecycle.drain();
    for (const response of await Promise.all([...asked, inItsPlace])) expect(response.status).toBe(503);
  });

  it('answers probes meanwhile', async () => {
    const { test } = setUp();
    expect((await test.app.fetch(new Request('http://localhost/live'))).status).toBe(200);
    const health = await test.app.fetch(new Request('http://localhost/health'));
    expect([health.status, await health.text()]).toEqual([503, expect.stringContaining('0 of 2 are ready')]);
  });
});
