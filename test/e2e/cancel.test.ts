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
const SHARED = { STATOR_ID_SECRET: 'a-secret-that-both-frontends-are-given' };

describe('a request that is cancelled through another frontend', () => {
  const fleet = useFleet();
  let edge: StatorProcess;
  let other: StatorProcess;
  let workers: StatorProcess[];

  beforeAll(async () => {
    [edge, other, ...workers] = await Promise.all([
      fleet.frontend([], SHARED),
      fleet.frontend([], SHARED),
      fleet.worker(),
      fleet.worker(),
    ]);
    await Promise.all([edge, other].map((frontend) => fleet.untilWorkers(frontend, 2)));
  });

  function send(path: string, body: object): Promise<Response> {
    return postJson(`${edge.url}${path}`, body, { headers: { 'x-dynamo-request-id': ID, 'x-request-id': 'mine' } });
  }

  /** A stream that has begun, and the id that its events tell. */
  async function begin(path: string, body: object) {
    const data = sseData(await send(path, { ...body, stream: true }));
    const { value } = await data.next();
    const [, id = ''] = /"id":"((?:chatcmpl|cmpl|resp)[^"]+)"/.exec(String(value)) ?? [];
    return { data, id };
  }

  async function rest(data: AsyncIterable<string>): Promise<string[]> {
    const texts: string[] = [];
    for await (const text of data) texts.push(text);
    return texts;
  }

  function inflightAt(worker: StatorProcess): Promise<number> {
    return worker.metric('dynamo_component_inflight_requests');
  }

  async function inflight(): Promise<number> {
    const counts = await Promise.all(workers.map(inflightAt));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async function expectFree(): Promise<void> {
    await waitUntil(async () => (await inflight()) === 0, { what: 'workers without requests' });
  }

  it('ends its stream with the error event of a cancelled one', async () => {
    const { data, id } = await begin('/v1/chat/completions', LONG);
    expect(id.startsWith(`chatcmpl-${ID}`)).toBe(true);
    for (const made of [ID, `chatcmpl-${ID}`, 'mine', `${id.slice(0, -1)}${id.endsWith('0') ? 1 : 0}`]) {
      expect([made, (await postJson(`${other.url}/v1/cancel/${made}`, {})).status]).toEqual([made, 404]);
    }
    const cancelled = await postJson(`${other.url}/v1/cancel/${id}`, {});
    expect([cancelled.status, await cancelled.json()]).toEqual([200, { id, object: 'cancellation', cancelled: true }]);
    const texts = await rest(data);
    expect(texts.at(-1)).toBe('[DONE]');
    expect(JSON.parse(texts.at(-2) ?? '')).toMatchObject({
      error: { message: 'Request cancelled', code: 'client_closed_request' },
    });
    await expectFree();
    expect(await edge.metric('dynamo_frontend_model_cancellation_total')).toBe(1);
    expect((await postJson(`${other.url}/v1/cancel/${id}`, {})).status).toBe(404);
  });

  it('ends every prompt of a batch', async () => {
    const { model, max_tokens, ignore_eos } = LONG;
    const { data, id } = await begin('/v1/completions', { model, max_tokens, ignore_eos, prompt: ['a', 'b', 'c'] });
    await waitUntil(async () => (await inflight()) === 3, { what: 'three prompts at the workers' });
    expect((await postJson(`${other.url}/v1/cancel/${id}`, {})).status).toBe(200);
    await rest(data);
    await expectFree();
  });

  it('gives its response as cancelled', async () => {
    const { data, id } = await begin('/v1/responses', {
      model: LONG.model,
      input: 'How do parts meet?',
      max_output_tokens: 3500,
      store: false,
      nvext: { ignore_eos: true },
    });
    const cancelled = await postJson(`${other.url}/v1/responses/${id}/cancel`, {});
    expect(await cancelled.json()).toEqual({ id, object: 'response', status: 'cancelled', output: [] });
    const texts = await rest(data);
    expect(texts.at(-1)).toBe('[DONE]');
    expect(JSON.parse(texts.at(-2) ?? '')).toMatchObject({ response: { id, status: 'cancelled' } });
    await expectFree();
  });

  it('is found where it has moved to, under the id that it began with', async () => {
    const { data, id } = await begin('/v1/chat/completions', LONG);
    const counts = await Promise.all(workers.map(inflightAt));
    const at = counts.indexOf(1);
    const [first] = workers.splice(at, 1);
    await first!.kill();
    await waitUntil(async () => (await inflight()) === 1, { what: 'the request at the other worker' });
    expect((await postJson(`${other.url}/v1/cancel/${id}`, {})).status).toBe(200);
    expect(await rest(data)).toContain('[DONE]');
    await expectFree();
  });
});
