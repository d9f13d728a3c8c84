import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import {
  APICallError,
  generateText,
  type LanguageModel,
  NoObjectGeneratedError,
  Output,
  RetryError,
  stepCountIs,
  streamText,
  tool,
} from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { waitUntil } from '../support/index.ts';
import { failureOf, OVERLOADED, promptFor, UNAVAILABLE, useRelay, useScriptedServer } from './client-bed.ts';
import type { ClientScript } from './client-scripts.ts';

const server = useScriptedServer();
const relay = useRelay(() => server.url);

type ProviderOptions = NonNullable<Parameters<typeof generateText>[0]['providerOptions']>;

/** One way in which this SDK speaks to us. */
interface Provider {
  readonly name: string;
  readonly refusal: typeof UNAVAILABLE;
  /** What the engine writes when the SDK asks for an object: this provider may ask for it as a tool call. */
  readonly objectScript: ClientScript;
  /** What makes a thinking model's thoughts come back apart; undefined where the protocol has no place for them. */
  readonly thinkingOptions: ProviderOptions | undefined;
  model(url: string, name: string): LanguageModel;
}

const PROVIDERS: readonly Provider[] = [
  {
    name: 'OpenAI chat',
    refusal: UNAVAILABLE,
    objectScript: 'json',
    thinkingOptions: undefined,
    model: (url, name) => createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' }).chat(name),
  },
  {
    name: 'OpenAI Responses',
    refusal: UNAVAILABLE,
    objectScript: 'json',
    thinkingOptions: { openai: { forceReasoning: true, reasoningSummary: 'auto' } },
    model: (url, name) => createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' }).responses(name),
  },
  {
    name: 'Anthropic',
    refusal: OVERLOADED,
    objectScript: 'json_call',
    thinkingOptions: {},
    model: (url, name) => createAnthropic({ baseURL: `${url}/v1`, apiKey: 'none' })(name),
  },
];

/** More than fits into the model `ctx64`. */
const LONG = 'x'.repeat(64);
const WEATHER = tool({
  description: 'Weather of a place',
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => `21 degrees in ${city} [[s:answer]]`,
});

describe.each(PROVIDERS)('the Vercel AI SDK over $name', (provider) => {
  const ask = (script: ClientScript, name = 'plain') => ({
    model: provider.model(server.url, name),
    prompt: promptFor(script),
    maxOutputTokens: 200,
    maxRetries: 0,
  });

  it('generates text', async () => {
    const { text, finishReason, usage } = await generateText({ ...ask('hello'), system: 'Be brief' });
    expect({ text, finishReason }).toEqual({ text: 'Hello there!', finishReason: 'stop' });
    expect(usage.outputTokens).toBe(13);
    expect(server.last?.prompt).toContain('<|im_start|>system\nBe brief<|im_end|>');
  });

  it('streams the same text, piece by piece', async () => {
    const { textStream, finishReason, usage } = streamText(ask('hello'));
    const pieces: string[] = [];
    for await (const piece of textStream) pieces.push(piece);
    expect(pieces).toEqual(['Hello', ' there', '!']);
    expect(await finishReason).toBe('stop');
    expect((await usage).outputTokens).toBe(13);
  });

  it.each([false, true])('calls a tool and answers from its result (streamed: %s)', async (isStreamed) => {
    const asked = { ...ask('call', 't.hermes'), tools: { get_weather: WEATHER }, stopWhen: stepCountIs(3) };
    const { text, steps } = isStreamed ? await streamed(asked) : await generateText(asked);
    expect(text).toBe('It is warm.');
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
    expect(steps[0]?.text).toBe('Let me look. ');
    expect(steps[0]?.toolCalls).toMatchObject([{ toolName: 'get_weather', input: { city: 'Paris' } }]);
    expect(server.last?.prompt).toContain('<|im_start|>tool\n21 degrees in Paris');
  });

  it.each([false, true])('is answered in the schema it asks for (streamed: %s)', async (isStreamed) => {
    const asked = { ...ask(provider.objectScript), output: Output.object({ schema: z.object({ n: z.int() }) }) };
    const { output } = isStreamed ? await streamed(asked) : await generateText(asked);
    expect(output).toEqual({ n: 7 });
    expect(JSON.stringify(server.last?.request.sampling.guided_decoding?.json)).toContain('"n":{"type":"integer"');
  });

  it('says so when the answer is not in the schema', async () => {
    const error = await failureOf(
      generateText({ ...ask('hello'), output: Output.object({ schema: z.object({ n: z.int() }) }) }).then(
        ({ output }) => output,
      ),
    );
    expect(error).toBeInstanceOf(NoObjectGeneratedError);
  });

  it('frees the worker when it aborts a stream', async () => {
    const leaving = new AbortController();
    const { textStream } = streamText({ ...ask('endless'), abortSignal: leaving.signal });
    const reading = (async () => {
      for await (const _piece of textStream) leaving.abort();
    })();
    await waitUntil(() => server.last?.wasCancelled === true, { what: 'a free worker' });
    await reading;
  });

  it('frees the worker when it aborts before any answer', async () => {
    const before = server.seen.length;
    const leaving = new AbortController();
    const answer = failureOf(generateText({ ...ask('endless'), abortSignal: leaving.signal }));
    await waitUntil(() => server.seen.length > before, { what: 'the request to reach the worker' });
    leaving.abort();
    expect(await answer).toMatchObject({ name: 'AbortError' });
    await waitUntil(() => server.last?.wasCancelled === true, { what: 'a free worker' });
  });

  it.each([
    ['a model without workers', 'hello', 'gpt-17', 404, false],
    ['a prompt over the context', 'hello', 'ctx64', 400, false],
    ['a worker that is limited', 'limited', 'plain', 429, true],
    ['a worker that is broken', 'broken', 'plain', 500, true],
  ] as const)('raises APICallError for %s, streamed and not', async (_what, script, name, status, isRetryable) => {
    const asked = { ...ask(script, name), system: LONG };
    const errors: unknown[] = [await failureOf(generateText(asked))];
    await streamText({ ...asked, onError: ({ error }) => void errors.push(error) }).consumeStream();
    expect(errors).toHaveLength(2);
    for (const error of errors) {
      expect(error).toBeInstanceOf(APICallError);
      expect(error).toMatchObject({ statusCode: status, isRetryable, message: expect.stringMatching(/./) });
    }
  });

  it('raises APICallError that may be retried for an overload', async () => {
    expect(await failureOf(generateText(ask('full')))).toMatchObject({
      statusCode: provider.refusal.status,
      isRetryable: true,
    });
  });

  it('tells a failure inside a stream, after the text before it', async () => {
    const errors: unknown[] = [];
    const { textStream } = streamText({ ...ask('breaks'), onError: ({ error }) => void errors.push(error) });
    const pieces: string[] = [];
    for await (const piece of textStream) pieces.push(piece);
    expect(pieces).toEqual(['Hello']);
    expect(errors).toHaveLength(1);
  });

  it('retries past a server that refuses for a while, and gives up with RetryError', async () => {
    const asked = { ...ask('hello'), model: provider.model(relay.url, 'plain'), maxRetries: 2 };
    relay.refuseNext(2, provider.refusal);
    expect((await generateText(asked)).text).toBe('Hello there!');
    expect(relay.attempts).toBe(3);
    relay.refuseNext(3, provider.refusal);
    const error = await failureOf(generateText(asked));
    expect(error).toBeInstanceOf(RetryError);
    expect((error as RetryError).lastError).toMatchObject({ statusCode: provider.refusal.status });
  });
});

describe.each(PROVIDERS.filter(({ thinkingOptions }) => thinkingOptions !== undefined))(
  'the Vercel AI SDK over $name, of a thinking model',
  (provider) => {
    it.each([false, true])('tells thoughts and text apart (streamed: %s)', async (isStreamed) => {
      const asked = {
        model: provider.model(server.url, 'r.qwen3'),
        prompt: promptFor('think'),
        maxOutputTokens: 200,
        ...(provider.thinkingOptions && { providerOptions: provider.thinkingOptions }),
      };
      const { text, reasoningText } = isStreamed ? await streamed(asked) : await generateText(asked);
      expect({ text: text.trim(), reasoningText }).toEqual({ text: 'Hi', reasoningText: 'plan it' });
    });
  },
);

type Settings = Parameters<typeof streamText>[0];

/** The ends of a stream. */
async function streamed(settings: Settings) {
  const result = streamText(settings);
  await result.consumeStream();
  const [text, reasoningText, steps, output] = await Promise.all([
    result.text,
    result.reasoningText,
    result.steps,
    result.output,
  ]);
  return { text, reasoningText, steps, output };
}
