import { describe, expect, it } from 'vitest';
import { type GenerationEvent, tell } from '../../support/generation-events.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../../support/http-app.ts';
import { playTexts, type ScriptedCall, ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';

const MIB = 1024 * 1024;
const ASKED = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const MESSAGES = { ...ASKED, max_tokens: 10 };

const ROUTES = [
  ['chat', '/v1/chat/completions', ASKED],
  ['completions', '/v1/completions', { model: 'm', prompt: 'hi' }],
  ['responses', '/v1/responses', { model: 'm', input: 'hi', store: false }],
  ['streamed responses', '/v1/responses', { model: 'm', input: 'hi', store: false, stream: true }],
  ['messages', '/v1/messages', MESSAGES],
] as const;

function open(
  play: (call: ScriptedCall) => void,
  options: TestAppOptions = {},
): TestApp & { pipeline: ScriptedPipeline } {
  const pipeline = new ScriptedPipeline([servedModel('m')]).onGenerate(play);
  const settings = { anthropic: { isEnabled: true, stripsPreamble: true }, ...options.settings };
  return { ...createTestApp({ pipeline, ...options, settings }), pipeline };
}

async function post({ app }: TestApp, path: string, body: object) {
  const response = await app.fetch(
    new Request(`http://localhost${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  );
  const { status, headers } = response;
  return { status, retryAfter: headers.get('retry-after'), text: await response.text() };
}

async function reached({ deps }: TestApp, limit: string): Promise<number> {
  const line = (await deps.metrics.render()).split('\n').find((one) => one.includes(`limit="${limit}"`));
  return Number(line?.split(' ').at(-1));
}

const tokenWithLogprobs = (): GenerationEvent => {
  const named = { tokenId: 1, token: 'a', bytes: [97], logprob: -1 };
  return { kind: 'delta', choice: 0, text: 'a', tokenIds: [], logprobs: [{ ...named, top: Array(20).fill(named) }] };
};

/** Goes on until nobody wants more, or a hundred megabytes of text are there. */
function sayMuch({ sink, options }: ScriptedCall): void {
  for (let at = 0; at < 100 && !options.signal.aborted; at++) sink.text(0, 'x'.repeat(MIB), 1);
  if (!options.signal.aborted) playTexts(sink, []);
}

describe('an answer that is kept until it is whole', () => {
  it.each(ROUTES)(
    'fails when it has grown too large, and the frontend tells its worker: %s',
    async (_name, path, body) => {
      const test = open(sayMuch, { settings: { answerLimitBytes: 8 * MIB } });
      const { status, text } = await post(test, path, body);
      expect([200, 400]).toContain(status); // 200 where the stream had begun
      expect(text).toContain('STATOR_HTTP_ANSWER_LIMIT_MB');
      expect(test.pipeline.calls[0]?.options.signal.aborted).toBe(true);
      expect(test.deps.answers.takenBytes).toBe(0);
      expect(await reached(test, 'answer_bytes')).toBe(1);
    },
  );

  it.each([
    ['log probabilities', tokenWithLogprobs],
    [
      'a body of the worker',
      (): GenerationEvent => ({ kind: 'body', body: { choices: [{ text: 'x'.repeat(4096) }] } }),
    ],
    ['reasoning', (): GenerationEvent => ({ kind: 'reasoning', choice: 0, text: 'x'.repeat(4096) })],
  ])('fails when it grows by %s', async (_what, next) => {
    let events = 0;
    const test = open(
      ({ sink, options }) => {
        for (; events < 10_000 && !options.signal.aborted; events++) tell(sink, next());
      },
      { settings: { answerLimitBytes: MIB } },
    );
    const { status, text } = await post(test, '/v1/chat/completions', { ...ASKED, logprobs: true, top_logprobs: 20 });
    expect(status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'invalid_value', param: 'max_tokens' } });
    expect(events).toBeLessThan(300);
  });

  it('begins with its prompt where that is echoed, once for each choice', async () => {
    const test = open(({ sink }) => playTexts(sink, ['a']), { settings: { answerLimitBytes: 8 * MIB } });
    const body = { model: 'm', prompt: 'x'.repeat(MIB), echo: true };
    expect((await post(test, '/v1/completions', { ...body, n: 2 })).status).toBe(200);
    expect((await post(test, '/v1/completions', { ...body, n: 100 })).status).toBe(400);
    expect(test.pipeline.calls).toHaveLength(1);
    expect(test.deps.answers.takenBytes).toBe(0);
  });

  it('says how many tokens of a choice there is room for', async () => {
    const test = open(({ sink }) => playTexts(sink, ['a']), {});
    await post(test, '/v1/chat/completions', { ...ASKED, n: 24, logprobs: true, top_logprobs: 20 });
    await post(test, '/v1/chat/completions', ASKED);
    await post(test, '/v1/chat/completions', { ...ASKED, n: 24, logprobs: true, top_logprobs: 20, stream: true });
    const [many, one, streamed] = test.pipeline.calls.map(({ request }) => request.answerTokensMax);
    expect(many).toBe(257); // 32 MiB / (24 choices x (64 + 21 x 256) bytes)
    expect(one).toBe(524_288);
    expect(streamed).toBeUndefined();
  });
});

describe('the room for answers', () => {
  it('is refused with 503 and Retry-After to new requests when it is full, and free again at the end', async () => {
    const test = open(() => {}, { answerBudgetBytes: 20_000 });
    const first = post(test, '/v1/chat/completions', ASKED);
    const { sink } = await test.pipeline.call(0);
    for (const [, path, body] of ROUTES) {
      const { status, retryAfter, text } = await post(test, path, body);
      expect([status === 529 ? 503 : status, retryAfter]).toEqual([503, '1']);
      expect(text).toContain('STATOR_HTTP_ANSWER_BUDGET_MB');
    }
    expect(await reached(test, 'answers_bytes')).toBe(ROUTES.length);
    playTexts(sink, ['a']);
    expect((await first).status).toBe(200);
    expect(test.deps.answers.takenBytes).toBe(0);
  });

  it('is not needed by streams that keep nothing', async () => {
    const test = open(({ sink }) => playTexts(sink, ['a']), { answerBudgetBytes: 1 });
    expect((await post(test, '/v1/chat/completions', { ...ASKED, stream: true })).status).toBe(200);
    expect((await post(test, '/v1/completions', { model: 'm', prompt: 'a', stream: true })).status).toBe(200);
  });
});

describe('a stop sequence', () => {
  it.each([
    ['/v1/chat/completions', ASKED, 'stop'],
    ['/v1/completions', { model: 'm', prompt: 'hi' }, 'stop'],
    ['/v1/messages', MESSAGES, 'stop_sequences'],
  ])('of more bytes than are allowed is refused by name: %s', async (path, body, field) => {
    const test = open(({ sink }) => playTexts(sink, ['a']));
    const { status, text } = await post(test, path, { ...body, [field]: ['ok', 'é'.repeat(513)] });
    expect(status).toBe(400);
    expect(text).toContain(
      `${field}[1]: a stop sequence may have at most 1024 bytes (STATOR_STOP_MAX_BYTES), got 1026`,
    );
    expect(await reached(test, 'stop_bytes')).toBe(1);
    expect((await post(test, path, { ...body, [field]: ['é'.repeat(512)] })).status).toBe(200);
  });
});

describe('the counter of limits', () => {
  it.each([
    [
      'body_bytes',
      '/v1/chat/completions',
      { ...ASKED, user: 'x'.repeat(3000) },
      { settings: { bodyLimitBytes: 2000 } },
    ],
    ['body_bytes', '/v1/messages/count_tokens', ASKED, { bodyBudgetBytes: 1 }],
    ['messages', '/v1/chat/completions', { ...ASKED, messages: Array(10_001).fill(ASKED.messages[0]) }, {}],
    ['stops', '/v1/completions', { model: 'm', prompt: 'a', stop: Array(33).fill('a') }, {}],
    ['names', '/v1/chat/completions', { ...ASKED, nvext: { annotations: Array(1025).fill('a') } }, {}],
    ['choices', '/v1/completions', { model: 'm', prompt: ['a', 'b'], n: 100 }, {}],
    [
      'tools',
      '/v1/chat/completions',
      { ...ASKED, tools: Array(1537).fill({ type: 'function', function: { name: 'f' } }) },
      {},
    ],
  ] as const)('counts %s', async (limit, path, body, options) => {
    const test = open(({ sink }) => playTexts(sink, ['a']), options);
    const { status } = await post(test, path, body);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(await reached(test, limit)).toBe(1);
  });
});
