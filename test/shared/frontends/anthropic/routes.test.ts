import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../support/dynamo-http/records.ts';
import { createTestApp, type TestAppOptions } from '../../../support/http-app.ts';
import { defaultHttpSettings } from '../../../support/http-settings.ts';
import { playTexts, ScriptedPipeline, servedModel } from '../../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { ANTHROPIC, answer, post } from './messages-bed.ts';

async function json(request: Request, options: TestAppOptions = {}) {
  const { app } = createTestApp({ ...options, settings: { ...ANTHROPIC, ...options.settings } });
  const response = await app.fetch(request);
  return { response, body: JSON.parse(await response.text()) as JsonObject };
}

const get = (path: string, headers = {}) => new Request(`http://localhost${path}`, { headers });
const VERSION = { 'anthropic-version': '2023-06-01' };

describe("Anthropic's routes", () => {
  it('do not exist unless they are switched on', async () => {
    const { app } = createTestApp();
    for (const path of ['/v1/messages', '/v1/messages/count_tokens']) {
      const response = await app.fetch(post({}, path));
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ error: { code: 'not_found' } });
    }
    const models = await (await app.fetch(get('/v1/models', VERSION))).json();
    expect(models).toMatchObject({ object: 'list' });
  });

  it('move together, and leave no trace at the old place', async () => {
    const settings = { paths: { ...defaultHttpSettings.paths, messages: '/x/m' } };
    const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['hi']));
    expect((await json(post({}, '/x/m'), { pipeline, settings })).response.status).toBe(200);
    expect((await json(post({}, '/x/m/count_tokens'), { settings })).response.status).toBe(200);
    expect((await json(post({}), { settings })).body).toMatchObject({ error: { code: 'not_found' } });
  });

  it('accept what current clients send beside the body', async () => {
    const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['hi']));
    const headers = { 'anthropic-beta': 'a-2025-01-01,b-2025-01-01', 'x-api-key': 'k', 'x-stainless-lang': 'js' };
    const { response } = await json(post({}, '/v1/messages?beta=true', headers), { pipeline });
    expect(response.status).toBe(200);
  });

  it.each([
    ['an unknown path below them', get('/v1/messages/batches'), 404, 'not_found_error'],
    ['a wrong method', get('/v1/messages'), 405, 'invalid_request_error'],
    [
      'a wrong content type',
      new Request('http://localhost/v1/messages', {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'text/plain' },
      }),
      415,
      'invalid_request_error',
    ],
    ['a model that is not registered', post({ model: 'nope' }), 404, 'not_found_error'],
    ['no max_tokens', post({ max_tokens: undefined }), 400, 'invalid_request_error'],
  ])('tell %s in their own envelope', async (_what, request, status, type) => {
    const { response, body } = await json(request);
    expect(response.status).toBe(status);
    expect(body).toEqual({
      type: 'error',
      error: { type, message: expect.any(String) },
      request_id: response.headers.get('request-id'),
    });
  });

  it('refuse a model that is not ready, and everything while the process drains', async () => {
    const readiness = { isReady: false, reason: 'no decode worker', namespaces: {} };
    const pipeline = new ScriptedPipeline([servedModel('m', { readiness })]);
    const unready = await json(post({}), { pipeline });
    expect(unready.response.status).toBe(503);
    expect(unready.body).toMatchObject({
      error: { type: 'overloaded_error', message: expect.stringContaining('not ready') },
    });
    for (const path of ['/v1/messages', '/v1/messages/count_tokens']) {
      const draining = await json(post({}, path), { stage: 'draining' });
      expect(draining.response.status).toBe(503);
      expect(draining.body).toMatchObject({ type: 'error', error: { type: 'overloaded_error' } });
    }
  });
});

describe('count_tokens', () => {
  it("is the prompt's true length where the tokenizer is known", async () => {
    const pipeline = new ScriptedPipeline();
    pipeline.promptTokens = 123;
    expect((await json(post({}, '/v1/messages/count_tokens'), { pipeline })).body).toEqual({ input_tokens: 123 });
  });

  it('is a third of the bytes where it is not', async () => {
    const { body } = await json(post({ model: 'unknown', system: 'Be brief' }, '/v1/messages/count_tokens'));
    expect(body).toEqual({ input_tokens: 4 }); // 8 + 'user' + 'hi' = 14 bytes
  });
});

const SINCE = { createdSecs: Date.UTC(2026, 0, 2, 3, 4, 5) / 1000 };

describe("the model list in Anthropic's shape", () => {
  const pipeline = new ScriptedPipeline([servedModel('a', SINCE), servedModel('b/c', SINCE)]);
  const clock = new VirtualClock();

  it('is one page', async () => {
    const { body } = await json(get('/v1/models?limit=1', VERSION), {
      pipeline,
      clock,
      settings: { maxOutputTokens: 55 },
    });
    const model = (id: string) => ({
      id,
      display_name: id,
      type: 'model',
      created_at: '2026-01-02T03:04:05Z',
      max_input_tokens: 4096,
      max_tokens: 55,
    });
    expect(body).toEqual({ data: [model('a'), model('b/c')], has_more: false, first_id: 'a', last_id: 'b/c' });
  });

  it('is empty without models', async () => {
    const { body } = await json(get('/v1/models', VERSION), { pipeline: new ScriptedPipeline([]) });
    expect(body).toEqual({ data: [], has_more: false, first_id: null, last_id: null });
  });

  it.each([
    ['an unknown model', '/v1/models/nope', {}, 404, 'not_found_error'],
    ['the readiness of an unknown model', '/v1/models/nope/ready', {}, 404, 'not_found_error'],
    ['a method that is not allowed', '/v1/models/a', { method: 'DELETE' }, 405, 'invalid_request_error'],
    ['a model that has no worker now', '/v1/models/half', {}, 503, 'overloaded_error'],
  ])('tells failures in its own words: %s', async (_what, path, init, status, type) => {
    const gone = { isReady: false, reason: 'no worker', namespaces: {} };
    const models = [servedModel('a'), servedModel('half', { readiness: gone })];
    const request = new Request(`http://localhost${path}`, { headers: VERSION, ...init });
    const { response, body } = await json(request, { pipeline: new ScriptedPipeline(models) });
    expect(response.status).toBe(status);
    expect(body).toEqual({
      type: 'error',
      error: { type, message: expect.any(String) },
      request_id: response.headers.get('request-id'),
    });
    expect(response.headers.get('retry-after')).toBe(status === 503 ? '5' : null);
  });

  it('leaves out a context length that no worker states', async () => {
    const vague = new ScriptedPipeline([servedModel('a', { contextLength: 0 })]);
    expect((await json(get('/v1/models/a', VERSION), { pipeline: vague })).body).not.toHaveProperty('max_input_tokens');
  });

  it('has one model at its own path, and no effect without the header', async () => {
    expect((await json(get('/v1/models/b/c', VERSION), { pipeline })).body).toMatchObject({ type: 'model', id: 'b/c' });
    expect((await json(get('/v1/models/b/c'), { pipeline })).body).toMatchObject({ object: 'model', id: 'b/c' });
  });
});

it('ignores root keys that it does not know, and counts them by names of a closed list', async () => {
  const { response, deps } = await answer({ seed: 7, zzz: 1, metadata: { user_id: 'u' } }, ({ sink }) =>
    playTexts(sink, ['hi']),
  );
  expect(response.status).toBe(200);
  const metrics = await deps.metrics.render();
  const counted = metrics.split('\n').filter((line) => line.startsWith('stator_frontend_ignored_keys_total{'));
  expect(counted.sort()).toEqual([
    'stator_frontend_ignored_keys_total{endpoint="anthropic_messages",key="other"} 1',
    'stator_frontend_ignored_keys_total{endpoint="anthropic_messages",key="seed"} 1',
  ]);
});
