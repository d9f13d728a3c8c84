import { describe, expect, it } from 'vitest';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];
const CHAT = { model: 'm', messages: MESSAGES };

async function ask(method: string, path: string, body?: object, options: TestAppOptions = {}) {
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
  const { app } = createTestApp({ pipeline, ...options });
  const init = body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  const response = await app.fetch(new Request(`http://localhost${path}`, { method, ...init }));
  const text = await response.text();
  return { status: response.status, text, json: () => JSON.parse(text) as Record<string, unknown> };
}

describe('a path in another spelling', () => {
  it.each([
    ['POST', '/chat/completions', CHAT, 'chat.completion'],
    ['POST', '/v1/chat/completions/', CHAT, 'chat.completion'],
    ['POST', '/chat/completions/', CHAT, 'chat.completion'],
    ['POST', '/completions', { model: 'm', prompt: 'x' }, 'text_completion'],
    ['POST', '/v1/completions/', { model: 'm', prompt: 'x' }, 'text_completion'],
    ['POST', '/responses', { model: 'm', input: 'x' }, 'response'],
    ['GET', '/models', undefined, 'list'],
    ['GET', '/v1/models/', undefined, 'list'],
    ['GET', '/models/m', undefined, 'model'],
    ['POST', '//v1/chat/completions', CHAT, 'chat.completion'],
    ['POST', '/v1//chat/completions', CHAT, 'chat.completion'],
    ['POST', '/v1/v1/chat/completions', CHAT, 'chat.completion'],
    ['POST', '/v1//v1/chat/completions//', CHAT, 'chat.completion'],
    ['GET', '/v1/v1/models', undefined, 'list'],
    ['GET', '//models//m', undefined, 'model'],
  ] as const)('is served: %s %s', async (method, path, body, object) => {
    const { status, json } = await ask(method, path, body);
    expect([status, json().object]).toEqual([200, object]);
  });

  it.each(['/health/', '/live/', '/ping/', '/version/', '/metrics/'])('is served: %s', async (path) => {
    expect((await ask('GET', path)).status).toBe(200);
  });

  it.each(['/v2/chat/completions', '/v1/v2/chat/completions', '/v1/chat', '/chat', '//', '/v1', '/v1/v1'])(
    'is not guessed: %s',
    async (path) => {
      const { status, text } = await ask('GET', path);
      expect([status, text]).toEqual([404, expect.stringContaining(path)]);
    },
  );

  it('has the methods of its route', async () => {
    const { status, text } = await ask('GET', '/chat/completions/');
    expect([status, text]).toEqual([405, expect.stringContaining('/v1/chat/completions')]);
  });

  it('follows a route that was moved, and its own routes come first', async () => {
    const { defaultHttpSettings } = await import('../../support/http-settings.ts');
    const paths = { ...defaultHttpSettings.paths, chat: '/own/chat', models: '/models/' };
    const options = { settings: { paths } };
    expect((await ask('POST', '/own/chat/', CHAT, options)).status).toBe(200);
    expect((await ask('GET', '/models', undefined, options)).status).toBe(404);
    expect((await ask('POST', '/chat/completions', CHAT, options)).status).toBe(404);
  });
});

describe('what vLLM has beside /v1', () => {
  it('is a ping, asked and posted, without a body', async () => {
    for (const method of ['GET', 'POST']) {
      const { status, text } = await ask(method, '/ping');
      expect([status, text]).toEqual([200, '']);
    }
  });

  it('is the version', async () => {
    expect((await ask('GET', '/version')).json()).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
  });

  it('are the tokens of a prompt, and how they are spelled where that is asked', async () => {
    const body = { model: 'm', prompt: 'ab' };
    const answer = { count: 2, max_model_len: 4096, tokens: [97, 98] };
    expect((await ask('POST', '/tokenize', body)).json()).toEqual({ ...answer, token_strs: null });
    const spelled = await ask('POST', '/tokenize/', { ...body, return_token_strs: true, unknown: 1 });
    expect(spelled.json()).toEqual({ ...answer, token_strs: ['a', 'b'] });
    expect((await ask('POST', '/tokenize', { prompt: 'ab' })).json()).toMatchObject(answer); // the only model
  });

  it.each([
    ['no prompt', { model: 'm' }, 'prompt'],
    ['two prompts', { model: 'm', prompt: 'x', messages: MESSAGES }, 'prompt'],
    ['a template of its own', { model: 'm', messages: MESSAGES, chat_template: '{{ x }}' }, 'chat_template'],
    ['a number as the prompt', { model: 'm', prompt: 5 }, 'prompt'],
    [
      'a message to begin and to continue',
      { model: 'm', messages: MESSAGES, add_generation_prompt: true, continue_final_message: true },
      'continue_final_message',
    ],
  ])('refuse %s', async (_, body, named) => {
    const { status, text } = await ask('POST', '/tokenize', body);
    expect([status, text]).toEqual([400, expect.stringContaining(named)]);
  });

  it('refuse invalid tokens and invalid bodies', async () => {
    for (const tokens of [[-1], [1.5], ['1'], 'x', null]) {
      expect((await ask('POST', '/detokenize', { model: 'm', tokens })).status).toBe(400);
    }
    expect((await ask('POST', '/tokenize', [])).status).toBe(400);
  });
});
