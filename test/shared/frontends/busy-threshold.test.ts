import { describe, expect, it } from 'vitest';
import { BusyThresholds } from '../../../shared/pipeline/pipeline.ts';
import { createTestApp, type TestApp } from '../../support/http-app.ts';
import { ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';

const MODELS = [servedModel('alias', { primaryName: 'm' }), servedModel('m'), servedModel('other')];
const setUp = () => createTestApp({ pipeline: new ScriptedPipeline(MODELS) });

async function ask(test: TestApp, body?: object) {
  const init =
    body === undefined
      ? {}
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await test.app.fetch(new Request('http://localhost/busy_threshold', init));
  return { status: response.status, body: JSON.parse(await response.text()) };
}

const NULLS = {
  active_decode_blocks_threshold: null,
  active_prefill_tokens_threshold: null,
  active_prefill_tokens_threshold_frac: null,
};

describe('/busy_threshold', () => {
  it('sets what is given, keeps the rest, and shows it under every name of the model', async () => {
    const test = setUp();
    await ask(test, { model: 'alias', active_decode_blocks_threshold: 0.5 });
    const { body } = await ask(test, { model: 'm', active_prefill_tokens_threshold: 7 });
    const set = { ...NULLS, active_decode_blocks_threshold: 0.5, active_prefill_tokens_threshold: 7 };
    expect(body).toEqual({ model: 'm', ...set });
    expect((await ask(test)).body).toEqual({
      thresholds: [
        { model: 'alias', ...set },
        { model: 'm', ...set },
        { model: 'other', ...NULLS },
      ],
    });
    expect(test.deps.pipeline.thresholds.of('m')).toEqual({ decodeBlocksShare: 0.5, prefillTokens: 7 });
  });

  it('sets nothing for a model that no worker has registered', async () => {
    const test = setUp();
    expect(await ask(test, { model: 'nope', active_prefill_tokens_threshold: 0 })).toEqual({
      status: 404,
      body: { error: "Model 'nope' not found. Thresholds can only be set for discovered models." },
    });
    expect(await ask(test, { model: 'nope' })).toEqual({ status: 200, body: { model: 'nope', ...NULLS } });
  });

  it.each([
    [{ model: 'm', active_decode_blocks_threshold: -0.1 }, 400],
    [{ model: 'm', active_prefill_tokens_threshold: 1.5 }, 422],
    [{ active_prefill_tokens_threshold: 1 }, 422],
  ])('refuses %j with %i and sets nothing', async (body, status) => {
    const test = setUp();
    const answer = await ask(test, body);
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual({ error: expect.any(String) });
    expect(test.deps.pipeline.thresholds.of('m')).toEqual({});
  });

  it('is not there when the routes of operators are switched off', async () => {
    expect((await ask(createTestApp({ settings: { hasAdminRoutes: false } }))).status).toBe(404);
  });
});

describe('busy thresholds', () => {
  it('are the start values until others are set for a model', () => {
    const thresholds = new BusyThresholds({ decodeBlocksShare: 1, prefillTokens: 10 });
    expect(thresholds.set('m', { prefillTokens: 5, decodeBlocksShare: undefined })).toEqual({
      decodeBlocksShare: 1,
      prefillTokens: 5,
    });
    expect(thresholds.of('other')).toEqual({ decodeBlocksShare: 1, prefillTokens: 10 });
  });

  it('are kept for a bounded number of models', () => {
    const thresholds = new BusyThresholds();
    for (let at = 0; at <= 1024; at++) thresholds.set(`m${at}`, { prefillTokens: at });
    expect(thresholds.of('m0')).toEqual({});
    expect(thresholds.of('m1024')).toEqual({ prefillTokens: 1024 });
  });
});
