import { ChatAnthropic } from '@langchain/anthropic';
import type { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { type AIMessageChunk, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { waitUntil } from '../support/index.ts';
import {
  failureOf,
  OVERLOADED,
  promptFor,
  type Refusal,
  UNAVAILABLE,
  useRelay,
  useScriptedServer,
} from './client-bed.ts';
import type { ClientScript } from './client-scripts.ts';

const server = useScriptedServer();
const relay = useRelay(() => server.url);

interface ModelSettings {
  readonly model: string;
  readonly maxRetries: number;
}

/** One way in which LangChain speaks to us. */
interface Dialect {
  readonly name: string;
  readonly refusal: Refusal;
  /** What the engine writes when an object is asked for: this client may ask for it as a tool call. */
  readonly objectScript: ClientScript;
  /** Reads from a stream that the answer failed; `response.failed` is an event that this client passes over. */
  readonly readsFailures: boolean;
  model(url: string, settings: ModelSettings): BaseChatModel;
}

const openAi = (url: string) => ({ apiKey: 'none', configuration: { baseURL: `${url}/v1` }, maxTokens: 200 });
const DIALECTS: readonly Dialect[] = [
  {
    name: 'OpenAI chat',
    refusal: UNAVAILABLE,
    objectScript: 'json',
    readsFailures: true,
    model: (url, settings) => new ChatOpenAI({ ...openAi(url), ...settings }),
  },
  {
    name: 'OpenAI Responses',
    refusal: UNAVAILABLE,
    objectScript: 'json',
    readsFailures: false,
    model: (url, settings) => new ChatOpenAI({ ...openAi(url), ...settings, useResponsesApi: true }),
  },
  {
    name: 'Anthropic',
    refusal: OVERLOADED,
    objectScript: 'extract_call',
    readsFailures: true,
    model: (url, settings) => new ChatAnthropic({ apiKey: 'none', anthropicApiUrl: url, maxTokens: 200, ...settings }),
  },
];

const WEATHER = tool(({ city }) => `21 degrees in ${city}. [[s:answer]]`, {
  name: 'get_weather',
  description: 'Weather of a place',
  schema: z.object({ city: z.string() }),
});

describe.each(DIALECTS)('LangChain over $name', (dialect) => {
  const modelOf = (name = 'plain', url = server.url, maxRetries = 0) => dialect.model(url, { model: name, maxRetries });
  const ask = (script: ClientScript) => [new SystemMessage('Be brief'), new HumanMessage(promptFor(script))];

  it('invokes a model', async () => {
    const message = await modelOf().invoke(ask('hello'));
    expect(message.text).toBe('Hello there!');
    expect(message.usage_metadata).toMatchObject({ output_tokens: 13 });
    expect(server.last?.prompt).toContain('<|im_start|>system\nBe brief<|im_end|>');
  });

  it('streams the same text, piece by piece', async () => {
    const { text, whole } = await gathered(modelOf(), ask('hello'));
    expect(text.filter((piece) => piece !== '')).toEqual(['Hello', ' there', '!']);
    expect(whole.usage_metadata).toMatchObject({ output_tokens: 13 });
  });

  it.each([false, true])('goes round with a tool: a call, its result, an answer (streamed: %s)', async (isStreamed) => {
    const model = modelOf('t.hermes').bindTools?.([WEATHER]);
    expect.assert(model !== undefined);
    const turns = [new HumanMessage(promptFor('call'))];
    const first = isStreamed ? (await gathered(model, turns)).whole : await model.invoke(turns);
    expect(first.text).toBe('Let me look. ');
    expect(first.tool_calls).toMatchObject([{ name: 'get_weather', args: { city: 'Paris' } }]);
    const [call] = first.tool_calls ?? [];
    expect.assert(call !== undefined);
    const result: ToolMessage = await WEATHER.invoke({ ...call, args: { city: 'Paris' }, type: 'tool_call' });
    expect(result).toBeInstanceOf(ToolMessage);
    const second = await model.invoke([...turns, first, result]);
    expect(second.text).toBe('It is warm.');
    expect(server.last?.prompt).toContain('<|im_start|>tool\n21 degrees in Paris.');
  });

  it('is answered in the schema it asks for', async () => {
    const schema = z.object({ n: z.int() });
    const structured = modelOf('t.hermes').withStructuredOutput(schema);
    expect(await structured.invoke(ask(dialect.objectScript))).toEqual({ n: 7 });
    expect(JSON.stringify(server.last?.request.sampling.guided_decoding?.json)).toContain('"n":{"type":"integer"');
  });

  it('frees the worker when it aborts a stream', async () => {
    const leaving = new AbortController();
    const reading = (async () => {
      for await (const _ of await modelOf().stream(ask('endless'), { signal: leaving.signal })) leaving.abort();
    })();
    await reading.catch(() => {}); // how a stream that one aborts oneself ends, differs among the dialects
    await waitUntil(() => server.last?.wasCancelled === true, { what: 'a free worker' });
  });

  it('frees the worker when it aborts before any answer', async () => {
    const before = server.seen.length;
    const leaving = new AbortController();
    const answer = failureOf(modelOf().invoke(ask('endless'), { signal: leaving.signal }));
    await waitUntil(() => server.seen.length > before, { what: 'the request to reach the worker' });
    leaving.abort();
    expect(await answer).toMatchObject({ message: expect.stringMatching(/abort/i) });
    await waitUntil(() => server.last?.wasCancelled === true, { what: 'a free worker' });
  });

  it.each([
    ['a model without workers', 'hello', 'gpt-17', { status: 404, lc_error_code: 'MODEL_NOT_FOUND' }],
    ['a worker that refuses the key', 'refused', 'plain', { status: 401, lc_error_code: 'MODEL_AUTHENTICATION' }],
    ['a worker that is limited', 'limited', 'plain', { status: 429, lc_error_code: 'MODEL_RATE_LIMIT' }],
    ['a worker that is broken', 'broken', 'plain', { status: 500 }],
  ] as const)('raises the error of %s, streamed and not', async (_what, script, name, shape) => {
    expect(await failureOf(modelOf(name).invoke(ask(script)))).toMatchObject(shape);
    expect(await failureOf(gathered(modelOf(name), ask(script)))).toMatchObject({ status: shape.status });
  });

  it('shows the text before a failure inside a stream', async () => {
    const pieces: string[] = [];
    const reading = (async () => {
      for await (const chunk of await modelOf().stream(ask('breaks'))) pieces.push(chunk.text);
    })();
    if (dialect.readsFailures) expect(await failureOf(reading)).toBeInstanceOf(Error);
    else await reading;
    expect(pieces.join('')).toBe('Hello');
  });

  it('retries past a server that refuses once, and raises a refusal where it may not retry', async () => {
    const patient = modelOf('plain', relay.url, 1);
    relay.refuseNext(1, dialect.refusal);
    expect((await patient.invoke(ask('hello'))).text).toBe('Hello there!');
    expect(relay.attempts).toBe(2);
    relay.refuseNext(1, dialect.refusal);
    const once = modelOf('plain', relay.url);
    expect(await failureOf(once.invoke(ask('hello')))).toMatchObject({ status: dialect.refusal.status });
  });
});

/** A stream's pieces of text, and the message that they make together. */
async function gathered(model: Pick<BaseChatModel, 'stream'>, messages: Parameters<BaseChatModel['stream']>[0]) {
  const text: string[] = [];
  let whole: AIMessageChunk | undefined;
  for await (const chunk of await model.stream(messages)) {
    text.push(chunk.text);
    whole = whole === undefined ? chunk : whole.concat(chunk);
  }
  expect.assert(whole !== undefined);
  return { text, whole };
}
