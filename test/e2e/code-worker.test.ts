import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { RateLimitError, toFile } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SpawnedProcess, spawnNode, useFleet } from '../support/index.ts';
import { failureOf } from './client-bed.ts';

const PROGRAM = fileURLToPath(new URL('code-worker.mjs', import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MODEL = 'made';

describe('the official clients and a model made from code', () => {
  const fleet = useFleet();
  let worker: SpawnedProcess;
  let openai: OpenAI;
  let anthropic: Anthropic;

  beforeAll(async () => {
    const env = { DYN_FILE_KV: fleet.fileKv, DYN_TCP_RPC_HOST: '127.0.0.1' };
    worker = spawnNode([PROGRAM, '--discovery-backend', 'file'], { cwd: ROOT, env });
    const frontend = await fleet.frontend(['--enable-anthropic-api']);
    await fleet.untilWorkers(frontend, 1, MODEL);
    openai = new OpenAI({ baseURL: `${frontend.url}/v1`, apiKey: 'none', maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: frontend.url, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(() => worker.kill());

  it('read its vectors, which they ask for in base64, and those of a list', async () => {
    const { data } = await openai.embeddings.create({ model: MODEL, input: ['a', 'b'] });
    expect(data.map(({ embedding }) => embedding)).toEqual([
      [0.5, -2, 0],
      [0.5, -2, 1],
    ]);
    const floats = await openai.embeddings.create({ model: MODEL, input: 'a', encoding_format: 'float' });
    expect(floats.data[0]?.embedding).toEqual([0.5, -2, 0]);
    const refused = await failureOf(openai.embeddings.create({ model: MODEL, input: [] }));
    expect(refused).toMatchObject({ status: 400, param: 'input' });
  });

  it('send it pictures to edit', async () => {
    const png = Buffer.from('89504e470d0a1a0a00', 'hex');
    const image = await toFile(png, 'cat.png', { type: 'image/png' });
    const { data } = await openai.images.edit({
      model: MODEL,
      prompt: 'a hat',
      n: 1,
      size: '256x256',
      image,
      mask: image,
    });
    const url = `data:image/png;base64,${png.toString('base64')}`;
    expect(JSON.parse(Buffer.from(data?.[0]?.b64_json ?? '', 'base64').toString())).toEqual({
      model: MODEL,
      prompt: 'a hat',
      n: 1,
      size: '256x256',
      input_reference: url,
      extra_args: { media_passthrough: { mask: url } },
    });
  });

  it('read the words and the code that it throws, and when to try again', async () => {
    const messages = [{ role: 'user' as const, content: 'too much' }];
    for (const stream of [false, true]) {
      const error = await failureOf(openai.chat.completions.create({ model: MODEL, messages, stream }));
      expect(error).toBeInstanceOf(RateLimitError);
      expect(error).toMatchObject({ code: 'rate_limit_exceeded' });
      expect((error as RateLimitError).message).toContain('Tenant x may ask twice a minute');
      expect((error as RateLimitError).headers.get('retry-after')).toBe('9');
    }
    const error = await failureOf(anthropic.messages.create({ model: MODEL, max_tokens: 5, messages }));
    expect(error).toMatchObject({ status: 429, error: { error: { type: 'rate_limit_error' } } });
  });

  it('get the usage of its bodies in every dialect, streamed and whole', async () => {
    const messages = [{ role: 'user' as const, content: 'in a body' }];
    const whole = await openai.chat.completions.create({ model: MODEL, messages });
    expect(whole).toMatchObject({
      choices: [{ message: { content: 'made' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 7, completion_tokens: 20, total_tokens: 27 },
    });
    const stream = await openai.chat.completions.create({
      model: MODEL,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    const usages = [];
    for await (const { usage } of stream) if (usage) usages.push(usage.total_tokens);
    expect(usages).toEqual([27]);
    const response = await openai.responses.create({ model: MODEL, input: 'in a body' });
    expect([response.output_text, response.usage?.input_tokens, response.usage?.output_tokens]).toEqual([
      'made',
      7,
      20,
    ]);
    const message = await anthropic.messages.stream({ model: MODEL, max_tokens: 5, messages }).finalMessage();
    expect(message.usage).toMatchObject({ input_tokens: 7, output_tokens: 20 });
  });

  it('get as many choices as they ask for, and one number for a prompt without a count', async () => {
    const messages = [{ role: 'user' as const, content: 'hi' }];
    const { choices, usage } = await openai.chat.completions.create({ model: MODEL, messages, n: 2 });
    expect(choices.map(({ index, message, finish_reason }) => [index, message.content, finish_reason])).toEqual([
      [0, 'six bytes ...', 'stop'],
      [1, 'six bytes ...', 'stop'],
    ]);
    const response = await openai.responses.create({ model: MODEL, input: 'hi' });
    const message = await anthropic.messages.create({ model: MODEL, max_tokens: 5, messages });
    const counted = await anthropic.messages.countTokens({ model: MODEL, messages });
    const prompts = [usage?.prompt_tokens, response.usage?.input_tokens, message.usage.input_tokens];
    expect([...prompts, counted.input_tokens]).toEqual([2, 2, 2, 2]); // `user` and `hi`
    expect(message.stop_reason).toBe('end_turn'); // an estimate above the limit cuts nothing
  });

  it('learn how many tokens its text stands for, and nothing about its context', async () => {
    const messages = [{ role: 'user' as const, content: 'hi' }];
    const { usage, choices } = await openai.chat.completions.create({ model: MODEL, messages });
    expect(choices[0]?.message.content).toBe('six bytes ...');
    expect(usage?.completion_tokens).toBe(5); // 13 bytes, 3 a token
    expect(await openai.models.retrieve(MODEL)).not.toHaveProperty('context_window');
  });

  it('learn in the words of their own API that a model does not exist', async () => {
    const error = await failureOf(anthropic.models.retrieve('nope'));
    expect(error).toBeInstanceOf(Anthropic.NotFoundError);
    expect(error).toMatchObject({ error: { type: 'error', error: { type: 'not_found_error' } } });
    expect((await anthropic.models.retrieve(MODEL)).type).toBe('model');
  });
});
