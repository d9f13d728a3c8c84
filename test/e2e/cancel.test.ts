import { beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, sseData, useFleet, waitUntil } from '../support/index.ts';

/** Half a minute at the mock engine's own pace: nothing but the cancel ends it in time. */
const LONG = {
  model: 'stator-mini',
  messages: [{ role: 'user', content: 'How do parts meet?' }],
  max_tokens: 3500,
  ignore_eos: true,
};
const ID = '1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b';

describe('a request that is cancelled through another frontend', () => {
  const fleet = useFleet();
  let edge: StatorProcess;
  let other: StatorProcess;
  let workers: StatorProcess[];

  beforeAll(async () => {
    [edge, other, ...workers] = await Promise.all([fleet.frontend(), fleet.frontend(), fleet.worker(), fleet.worker()]);
    await Promise.all([edge, other].map((frontend) => fleet.untilWorkers(frontend, 2)));
  });

  function send(path: string, body: object): Promise<Response> {
    return postJson(`${edge.url}${path}`, body, { headers: { 'x-dynamo-request-id': ID, 'x-request-id': 'mine' } });
  }

  async function inflight(): Promise<number> {
    const counts = await Promise.all(workers.map((worker) => worker.metric('dynamo_component_inflight_requests')));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async function expectFree(): Promise<void> {
    await waitUntil(async () => (await inflight()) === 0, { what: 'workers without requests' });
  }

  it('ends its stream with the error event of a cancelled one', async () => {
    const response = await send('/v1/chat/completions', { ...LONG, stream: true });
    const data = sseData(response);
    for (let chunk = 0; chunk < 3; chunk++) await data.next();
    const cancelled = await postJson(`${other.url}/v1/cancel/chatcmpl-${ID}`, {});
    expect([cancelled.status, await cancelled.json()]).toEqual([
      200,
      { id: `chatcmpl-${ID}`, object: 'cancellation', cancelled: true },
    ]);
    const rest: string[] = [];
    for await (const text of data) rest.push(text);
    expect(rest.at(-1)).toBe('[DONE]');
    expect(JSON.parse(rest.at(-2) ?? '')).toMatchObject({
      error: { message: 'Request cancelled', code: 'client_closed_request' },
    });
    await expectFree();
    expect(await edge.metric('dynamo_frontend_model_cancellation_total')).toBe(1);
    expect((await postJson(`${other.url}/v1/cancel/chatcmpl-${ID}`, {})).status).toBe(404);
  });

  it('ends every prompt of a batch, and not by what the client calls it', async () => {
    const { model, max_tokens, ignore_eos } = LONG;
    const answer = send('/v1/completions', { model, max_tokens, ignore_eos, prompt: ['a', 'b', 'c'] });
    await waitUntil(async () => (await inflight()) === 3, { what: 'three prompts at the workers' });
    expect((await postJson(`${other.url}/v1/cancel/mine`, {})).status).toBe(404);
    expect(await inflight()).toBe(3);
    expect((await postJson(`${other.url}/v1/cancel/cmpl-${ID}`, {})).status).toBe(200);
    expect((await answer).status).toBe(499);
    await expectFree();
  });

  it('gives its response as cancelled', async () => {
    const answer = send('/v1/responses', {
      model: LONG.model,
      input: 'How do parts meet?',
      max_output_tokens: 3500,
      store: false,
      nvext: { ignore_eos: true },
    });
    await waitUntil(async () => (await inflight()) === 1, { what: 'the request at a worker' });
    const id = `resp_${ID.replaceAll('-', '')}`;
    const cancelled = await postJson(`${other.url}/v1/responses/${id}/cancel`, {});
    expect(await cancelled.json()).toEqual({ id, object: 'response', status: 'cancelled', output: [] });
    expect(await (await answer).json()).toMatchObject({ id, status: 'cancelled' });
    await expectFree();
  });
});
