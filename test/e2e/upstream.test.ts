import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { failureOf } from './client-bed.ts';
import { startUpstreamServer, type UpstreamServer } from './upstream-server.ts';

const MODEL = 'hosted';
const fleet = useFleet();
let upstream: UpstreamServer;
let attached: readonly string[];
let frontend: StatorProcess;
let worker: StatorProcess;
let openai: OpenAI;
let anthropic: Anthropic;

beforeAll(async () => {
  upstream = await startUpstreamServer();
  attached = ['--engine=openai', `--engine-url=${upstream.url}`, `--model-name=${MODEL}`];
  [frontend, worker] = await Promise.all([
    fleet.frontend(['--enable-anthropic-api'], { DYN_LOG: 'debug' }),
    fleet.worker(attached),
  ]);
  await fleet.untilWorkers(frontend, 1, MODEL);
  openai = new OpenAI({ baseURL: `${frontend.url}/v1`, apiKey: 'none', maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: frontend.url, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => upstream.close());

const messages = (content: string) => [{ role: 'user' as const, content }];
const ASKED = { stream_options: { include_usage: true } };
const SPENT = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };

async function chunksOf<Chunk>(stream: Promise<AsyncIterable<Chunk>>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}

/** What the log's last line of a request says of its tokens. */
async function tokensLogged(requestId: string): Promise<unknown> {
  const line = await waitUntil(() =>
    `${frontend.stdout()}${frontend.stderr()}`
      .split('\n')
      .find((text) => text.includes('request completed') && text.includes(requestId)),
  );
  const [, input] = / input_tokens=(\d+)/.exec(line) ?? [];
  const [, output] = / output_tokens=(\d+)/.exec(line) ?? [];
  return [Number(input), Number(output)];
}

describe('usage of streams of another server', () => {
  it('is known to metrics and log, and hidden from a chat that did not ask', async () => {
    const before = await frontend.metric('dynamo_frontend_output_sequence_tokens_sum');
    const { data, response } = await openai.chat.completions
      .create({ model: MODEL, messages: messages('hi'), stream: true })
      .withResponse();
    const chunks = await chunksOf(Promise.resolve(data));
    expect(chunks.map(({ choices, usage }) => [choices[0]?.delta.content, usage])).toEqual([
      ['Hello', undefined],
      [' there', undefined],
    ]);
    expect(await tokensLogged(response.headers.get('x-request-id') ?? '')).toEqual([11, 7]);
    expect((await frontend.metric('dynamo_frontend_output_sequence_tokens_sum')) - before).toBe(7);
  });

  it('is shown to clients that asked, once', async () => {
    const chats = await chunksOf(
      openai.chat.completions.create({ model: MODEL, messages: messages('hi'), stream: true, ...ASKED }),
    );
    expect(chats.flatMap(({ usage }) => usage ?? [])).toEqual([SPENT]);
    const completions = await chunksOf(
      openai.completions.create({ model: MODEL, prompt: ['a', 'b'], stream: true, ...ASKED }),
    );
    expect(completions.flatMap(({ usage }) => usage ?? [])).toMatchObject([
      { prompt_tokens: 22, completion_tokens: 14, total_tokens: 36 },
    ]);
  });

  it('is passed on by Messages and Responses', async () => {
    const message = await anthropic.messages
      .stream({ model: MODEL, max_tokens: 50, messages: messages('hi') })
      .finalMessage();
    expect(message.usage).toMatchObject({ input_tokens: 11, output_tokens: 7 });
    const events = await chunksOf(openai.responses.create({ model: MODEL, input: 'hi', stream: true }));
    expect(events.at(-1)).toMatchObject({ response: { usage: { input_tokens: 11, output_tokens: 7 } } });
  });
});

describe('a refusal of another server', () => {
  it.each([
    [429, 429, 'rate_limit_error', '7'],
    [503, 503, 'server_error', '30'],
    [529, 503, 'overloaded_error', '5'],
  ])('of status %i is %i to clients of OpenAI’s API, with its Retry-After', async (theirs, status, type, after) => {
    for (const stream of [false, true]) {
      const content = `refuse ${theirs} after ${after}`;
      const work = openai.chat.completions.create({ model: MODEL, messages: messages(content), stream });
      const error = (await failureOf(work)) as InstanceType<typeof OpenAI.APIError>;
      expect([error.status, error.type, error.headers?.get('retry-after')]).toEqual([status, type, after]);
      expect(error.message).not.toContain('their own words');
    }
  });

  it.each([
    [429, 429, 'rate_limit_error', '7'],
    [503, 503, 'overloaded_error', '30'],
    [529, 529, 'overloaded_error', '5'],
  ])('of status %i is %i to clients of Anthropic’s API', async (theirs, status, type, after) => {
    for (const stream of [false, true]) {
      const content = `refuse ${theirs} after ${after}`;
      const work = anthropic.messages.create({ model: MODEL, max_tokens: 5, messages: messages(content), stream });
      const error = (await failureOf(work)) as InstanceType<typeof Anthropic.APIError>;
      expect([error.status, error.headers?.get('retry-after')]).toEqual([status, after]);
      expect(error.error).toMatchObject({ type: 'error', error: { type } });
    }
  });
});

// Last: there is no worker afterwards.
describe('a model whose last worker has gone', () => {
  it('is 503 with Retry-After, listed nowhere, and was created when it was', async () => {
    const { created } = await openai.models.retrieve(MODEL);
    expect(Math.abs(created - Date.now() / 1000)).toBeLessThan(600);
    worker.signal('SIGTERM');
    await worker.exited;
    await waitUntil(async () => (await openai.models.list()).data.length === 0);
    const chat = openai.chat.completions.create({ model: MODEL, messages: messages('hi') });
    for (const work of [chat, openai.models.retrieve(MODEL)]) {
      const error = (await failureOf(work)) as InstanceType<typeof OpenAI.APIError>;
      expect([error.status, error.code, error.headers?.get('retry-after')]).toEqual([503, 'service_unavailable', '5']);
    }
    const ready = await fetch(`${frontend.url}/v1/models/${MODEL}/ready`);
    expect([ready.status, await ready.json()]).toMatchObject([503, { ready: false, reason: 'no worker' }]);
    await fleet.worker(attached);
    await fleet.untilWorkers(frontend, 1, MODEL);
    expect((await openai.models.retrieve(MODEL)).created).toBe(created);
  });
});
