import { describe, expect, it } from 'vitest';
import { arrayFieldsOf, bodiesOfRoutes } from '../../support/array-fields.ts';
import { createTestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

const BODY_BYTES = 1024 * 1024;
/** Those whose answers a script can play. */
const TEXT = /^\/v1\/(?:chat|completions|embeddings|responses(?!\/compact)|messages)/;
const ROUTES = [...(await bodiesOfRoutes())].filter(([path]) => TEXT.test(path));

/** Elements of every kind that JSON has, few bytes each. */
const ELEMENTS = ['1', 'true', '"ab"', '{}', '[1]'];
const FIELDS = ROUTES.flatMap(([route, { schema }]) => arrayFieldsOf(schema).map((field) => ({ route, ...field })));

/** Prompts of routes whose schema does not require one. */
const PROMPTS: Readonly<Record<string, object>> = {
  '/v1/completions': { prompt: 'x' },
  '/v1/responses': { input: 'x' },
};

/** `field` of the route's body, filled with `element` up to the size of `BODY_BYTES`. */
function bodyOf({ route, bodyWith }: (typeof FIELDS)[number], element: string): string {
  const body = { ...(PROMPTS[route] ?? {}), model: 'm', ...(bodyWith('ARRAY') as object) };
  const [before = '', after = ''] = JSON.stringify(body).split('"ARRAY"');
  const elements = element.concat(',').repeat(Math.floor(BODY_BYTES / (element.length + 1)));
  return `${before}[${elements}${element}]${after}`;
}

describe('an array that fills a body', () => {
  it('is tried on every route whose answer a script can play', () => {
    // Chat, completions, embeddings, responses and their input tokens, messages and their tokens.
    expect(ROUTES).toHaveLength(7);
  });

  it.each(FIELDS)('is refused in the words of its field, in several turns: $route $path', async (field) => {
    const { app, deps } = createTestApp({
      pipeline: new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a'])),
      settings: { bodyLimitBytes: 2 * BODY_BYTES, anthropic: { isEnabled: true, stripsPreamble: true } },
    });
    const [root = ''] = field.path.split(/[.[_]/); // `stop_sequences` are told of as stop sequences
    for (const element of ELEMENTS) {
      const body = bodyOf(field, element);
      let turns = 0;
      let isOver = false;
      const countTurn = (): void => {
        turns++;
        if (!isOver) setImmediate(countTurn);
      };
      setImmediate(countTurn);
      const response = await app.fetch(
        new Request(`http://localhost${field.route}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body,
        }),
      );
      isOver = true;
      const answer = (await response.json()) as { error?: { message: string; param?: string | null } };
      expect(turns, element).toBeGreaterThan(2);
      expect(deps.bodies.takenBytes).toBe(0);
      if (response.status === 200) continue; // a list that may be as long
      expect([400, 404, 413, 501], `${element}: ${answer.error?.message}`).toContain(response.status);
      if (response.status !== 404) expect(`${answer.error?.param} ${answer.error?.message}`).toContain(root);
      expect(answer.error?.message.length).toBeLessThan(500);
    }
  });
});

describe('a misspelt key', () => {
  const post = async (path: string, body: object) => {
    const { app } = createTestApp({ settings: { anthropic: { isEnabled: true, stripsPreamble: true } } });
    const response = await app.fetch(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', ...body }),
      }),
    );
    return ((await response.json()) as { error: { code?: string; message: string; param?: string } }).error;
  };
  const messages = [{ role: 'user', content: 'hi' }];

  it.each([
    ['/v1/chat/completions', { messages, temprature: 1 }, 'temprature', 'temperature'],
    ['/v1/completions', { prompt: 'x', max_token: 1 }, 'max_token', 'max_tokens'],
    ['/v1/chat/completions', { messages, nvext: { anotations: [] } }, 'nvext.anotations', 'annotations'],
    [
      '/v1/chat/completions',
      { messages, nvext: { agent_hints: { priorty: 1 } } },
      'nvext.agent_hints.priorty',
      'priority',
    ],
  ])('is refused with the one that was meant: %s %j', async (path, body, param, meant) => {
    const error = await post(path, body);
    expect(error).toMatchObject({ code: 'unknown_parameter', param });
    expect(error.message).toContain(`(did you mean \`${meant}\`?)`);
  });

  it('is not taken for one that it is not like', async () => {
    const error = await post('/v1/chat/completions', { messages, frobnicate: 1 });
    expect(error.message).toBe('Unsupported parameter(s): `frobnicate`');
  });

  it('among a thousand is one of a few that are named', async () => {
    const unknown = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`${at}${'x'.repeat(500)}`, 1]));
    const error = await post('/v1/chat/completions', { messages, ...unknown });
    expect(error.message).toContain('and 992 more');
    expect(error.message.length).toBeLessThan(1500);
  });
});
