import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { waitUntil } from '../support/index.ts';
import { FunctionBed, hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import type { LambdaRuntime } from '../support/lambda-runtime.ts';
import { type MadeUpFleet, makeUpFleet } from '../support/made-up-fleet.ts';

const OTHERS = 500;
const MODELS = 20;

/** The bundle that is deployed, among workers of which few serve what it is asked for: it reads what it needs, and tells the rest when asked. */
describe.runIf(hasFunctionBed())('the function of a large fleet', () => {
  let bed: FunctionBed;
  let fleet: MadeUpFleet;
  let runtime: LambdaRuntime;

  const start = () =>
    bed.startFunction({
      STATOR_ID_SECRET: 'a-secret-that-all-edges-are-given',
      STATOR_AUTH: 'off',
      DYN_REQUEST_PLANE: 'tcp',
      DYN_ENABLE_ANTHROPIC_API: 'true',
    });

  const post = (path: string, body: object): Promise<Response> =>
    fetch(`${runtime.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify(body),
    });

  const messages = [{ role: 'user' as const, content: 'What are you?' }];

  beforeAll(async () => {
    bed = await FunctionBed.open();
    fleet = await makeUpFleet(bed.table, { count: OTHERS, models: MODELS, everyMs: 500 });
    await bed.startWorker();
    runtime = await start();
  });

  afterEach(() => runtime.idle());

  afterAll(async () => {
    await runtime.stop();
    await fleet.close();
    await bed.close();
  });

  it('answers its first request, whichever route it takes, and in each dialect', async () => {
    await waitUntil(async () => {
      const { status } = await post('/v1/chat/completions', { model: MODEL, max_tokens: 2, messages });
      await runtime.idle();
      return status === 200;
    });
    const asks: readonly (readonly [string, object])[] = [
      ['/v1/chat/completions', { model: MODEL, max_tokens: 2, messages }],
      ['/v1/completions', { model: MODEL, max_tokens: 2, prompt: 'What are you?' }],
      ['/v1/responses', { model: MODEL, max_output_tokens: 2, input: 'What are you?' }],
      ['/v1/messages', { model: MODEL, max_tokens: 2, messages }],
      ['/v1/messages/count_tokens', { model: MODEL, messages }],
      ['/tokenize', { model: MODEL, prompt: 'What are you?' }],
      ['/detokenize', { model: MODEL, tokens: [1, 2] }],
    ];
    for (const [path, body] of asks) {
      await runtime.stop();
      runtime = await start(); // cold each time
      const response = await post(path, body);
      expect([path, response.status]).toEqual([path, 200]);
      await response.arrayBuffer();
    }
    await runtime.stop();
    runtime = await start();
    const ready = await fetch(`${runtime.url}/v1/models/${MODEL}/ready`);
    expect([ready.status, await ready.json()]).toMatchObject([200, { ready: true }]);
  });

  it('says where the names are if a request has an unknown one', async () => {
    for (const model of ['nobody', 'other', 'other-20']) {
      const response = await post('/v1/chat/completions', { model, messages });
      const { error } = (await response.json()) as { readonly error: { readonly message: string } };
      expect(response.status).toBe(404);
      expect(error.message).toContain('GET /v1/models');
      await runtime.idle();
    }
  });

  it('tells every model when it is asked for the list, in a process that has just started as well', async () => {
    await runtime.stop();
    runtime = await start();
    const client = new OpenAI({ baseURL: `${runtime.url}/v1`, apiKey: 'unused', maxRetries: 0 });
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toEqual(
      [MODEL, ...Array.from({ length: MODELS }, (_, at) => `other-${at}`)].sort(),
    );
  });

  it('ends a request of another environment, by its id', async () => {
    const other = await start();
    const client = new OpenAI({ baseURL: `${runtime.url}/v1`, apiKey: 'unused', maxRetries: 0 });
    const stream = await client.chat.completions.create({ model: MODEL, max_tokens: 4000, messages, stream: true });
    let isCancelled = false;
    const reading = (async () => {
      for await (const { id } of stream) {
        if (isCancelled) continue;
        isCancelled = true;
        expect((await fetch(`${other.url}/v1/cancel/${id}`, { method: 'POST' })).status).toBe(200);
      }
    })();
    await expect(reading).rejects.toThrow('cancelled');
    await other.stop();
  });

  it('ends a response of another environment, by its id', async () => {
    const other = await start();
    const client = new OpenAI({ baseURL: `${runtime.url}/v1`, apiKey: 'unused', maxRetries: 0 });
    const elsewhere = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: 'unused', maxRetries: 0 });
    const input = 'What are you?';
    const stream = await client.responses.create({ model: MODEL, max_output_tokens: 4000, input, stream: true });
    const told: string[] = [];
    for await (const event of stream) {
      told.push(event.type);
      if (event.type !== 'response.created') continue;
      expect(await elsewhere.responses.cancel(event.response.id)).toMatchObject({ status: 'cancelled' });
    }
    expect(told).not.toContain('response.completed');
    await other.stop();
  });
});
