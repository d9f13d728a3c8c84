import OpenAI, { APIUserAbortError, BadRequestError, InternalServerError, NotFoundError } from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { failureOf, UNAVAILABLE, useRelay } from './client-bed.ts';

const MODEL = 'stator-mini';
const QUESTION: OpenAI.ChatCompletionCreateParams = {
  model: MODEL,
  messages: [
    { role: 'system', content: 'You are terse.' },
    { role: 'user', content: 'What are you?' },
  ],
  max_completion_tokens: 16,
};
/** Runs for most of a minute unless somebody ends it. */
const ENDLESS = { ...QUESTION, max_completion_tokens: 8000, ignore_eos: true };

const fleet = useFleet();
let frontend: StatorProcess;
let worker: StatorProcess;
let client: OpenAI;

beforeAll(async () => {
  [frontend, worker] = await Promise.all([fleet.frontend(), fleet.worker()]);
  await fleet.untilWorkers(frontend, 1);
  client = clientOf(frontend.url);
});

function clientOf(url: string, maxRetries = 0): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries });
}

describe('the official Node client', () => {
  it('completes a chat', async () => {
    const completion = await client.chat.completions.create({ ...QUESTION, stream: false });
    expect(completion).toMatchObject({ object: 'chat.completion', model: MODEL });
    expect(completion.id).toMatch(/^chatcmpl-/);
    expect(completion.choices).toHaveLength(1);
    expect(completion.choices[0]).toMatchObject({ index: 0, finish_reason: 'length', message: { role: 'assistant' } });
    expect(completion.choices[0]?.message.content?.length).toBeGreaterThan(10);
    const { prompt_tokens = 0, completion_tokens, total_tokens } = completion.usage ?? {};
    expect(completion_tokens).toBe(16);
    expect(total_tokens).toBe(prompt_tokens + 16);
  });

  it('streams a chat: one id, one role, the same text as in one piece, usage at the end', async () => {
    const whole = await client.chat.completions.create({ ...QUESTION, stream: false });
    const stream = await client.chat.completions.create({
      ...QUESTION,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.filter(({ choices }) => choices[0]?.delta.role !== undefined)).toHaveLength(1);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(
      whole.choices[0]?.message.content,
    );
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('length');
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: whole.usage });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
  });

  it('gathers a stream with its own stream helper', async () => {
    const runner = client.chat.completions.stream({ ...QUESTION, stream: true });
    const content: string[] = [];
    runner.on('content', (delta) => content.push(delta));
    const final = await runner.finalChatCompletion();
    expect(final.choices[0]?.message.content).toBe(content.join(''));
    expect(final.choices[0]?.finish_reason).toBe('length');
  });

  it('completes a prompt, streamed and not', async () => {
    const prompt = { model: MODEL, prompt: 'Once upon a time', max_tokens: 12 };
    const whole = await client.completions.create(prompt);
    expect(whole).toMatchObject({ object: 'text_completion', usage: { completion_tokens: 12 } });
    let text = '';
    for await (const chunk of await client.completions.create({ ...prompt, stream: true })) {
      text += chunk.choices[0]?.text ?? '';
    }
    expect(text).toBe(whole.choices[0]?.text);
  });

  it('stops at a stop string, which does not show', async () => {
    const whole = await client.chat.completions.create({ ...QUESTION, stream: false });
    const text = whole.choices[0]?.message.content ?? '';
    const stop = text.trim().split(' ')[3] ?? '';
    const cut = await client.chat.completions.create({ ...QUESTION, stream: false, stop });
    expect(cut.choices[0]?.finish_reason).toBe('stop');
    expect(cut.choices[0]?.message.content).toBe(text.slice(0, text.indexOf(stop)));
  });

  it('lists and retrieves models', async () => {
    const ids: string[] = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toEqual([MODEL]);
    expect(await client.models.retrieve(MODEL)).toMatchObject({ id: MODEL, object: 'model' });
  });
});

describe('the errors of the official Node client', () => {
  it('are BadRequestError with code and param for a field that is wrong', async () => {
    const error = await failureOf(client.chat.completions.create({ ...QUESTION, stream: false, temperature: 7 }));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({
      status: 400,
      code: 'invalid_value',
      param: 'temperature',
      type: 'invalid_request_error',
    });
  });

  it('are BadRequestError for a prompt over the context, before the stream begins', async () => {
    const messages = [{ role: 'user' as const, content: 'word '.repeat(140_000) }];
    const error = await failureOf(client.chat.completions.create({ ...QUESTION, stream: true, messages }));
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ code: 'context_length_exceeded' });
  });

  it('are NotFoundError for a model that no worker serves', async () => {
    for (const stream of [false, true]) {
      const error = await failureOf(client.chat.completions.create({ ...QUESTION, stream, model: 'gpt-17' }));
      expect(error).toBeInstanceOf(NotFoundError);
      expect(error).toMatchObject({ status: 404, code: 'model_not_found', type: 'invalid_request_error' });
    }
    expect(await failureOf(client.models.retrieve('gpt-17'))).toBeInstanceOf(NotFoundError);
  });
});

describe('a request of the official Node client that is aborted', () => {
  const cancellations = () => worker.metric('dynamo_component_cancellation_total');
  const isIdle = async (): Promise<boolean> => (await worker.metric('dynamo_component_inflight_requests')) === 0;

  it('frees its worker in mid-stream and is one line in the log', async () => {
    const before = await cancellations();
    const stream = await client.chat.completions.create({ ...ENDLESS, stream: true });
    let seen = 0;
    for await (const _chunk of stream) {
      seen++;
      if (seen === 5) stream.controller.abort();
    }
    await waitUntil(isIdle, { what: 'a free worker' });
    expect(await cancellations()).toBe(before + 1);
    await frontend.waitForOutput(/request completed .*status=499/);
    expect(await frontend.metric('dynamo_frontend_inflight_requests')).toBe(0);
  });

  it('frees its worker before any answer', async () => {
    const before = await cancellations();
    const leaving = new AbortController();
    const answer = failureOf(client.chat.completions.create({ ...ENDLESS, stream: false }, { signal: leaving.signal }));
    await waitUntil(async () => !(await isIdle()), { what: 'the request to reach the worker' });
    leaving.abort();
    expect(await answer).toBeInstanceOf(APIUserAbortError);
    await waitUntil(isIdle, { what: 'a free worker' });
    expect(await cancellations()).toBe(before + 1);
    await frontend.waitForOutput(/(request completed .*status=499[\s\S]*){2}/);
  });
});

describe('the retries of the official Node client', () => {
  const relay = useRelay(() => frontend.url);

  it('get past a server that answers 503 for a while, and give up with InternalServerError', async () => {
    const patient = clientOf(relay.url, 2);
    relay.refuseNext(2, UNAVAILABLE);
    const completion = await patient.chat.completions.create({ ...QUESTION, stream: false });
    expect(completion.choices[0]?.finish_reason).toBe('length');
    expect(relay.attempts).toBe(3);
    relay.refuseNext(3, UNAVAILABLE);
    const error = await failureOf(patient.chat.completions.create({ ...QUESTION, stream: false }));
    expect(error).toBeInstanceOf(InternalServerError);
    expect(error).toMatchObject({ status: 503, code: 'service_unavailable' });
  });
});
