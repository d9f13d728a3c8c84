import { beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, sseData, useFleet } from '../support/index.ts';

const MODEL = 'stator-mini';
const MESSAGES = [{ role: 'user', content: 'Hello' }];
/** What a deployment gives to requests that name no number. */
const DEFAULT = 12;

interface Dialect {
  readonly path: string;
  readonly body: object;
  /** Names a number, by the field of the dialect. */
  readonly field: string;
  /** Of an answer that ended because it had as many tokens as it may have. */
  readonly ended: string;
  /** Asks for the usage of a stream. */
  readonly inStream?: object;
}

const DIALECTS: readonly Dialect[] = [
  {
    path: '/v1/chat/completions',
    body: { messages: MESSAGES },
    field: 'max_completion_tokens',
    ended: '"finish_reason":"length"',
    inStream: { stream_options: { include_usage: true } },
  },
  {
    path: '/v1/completions',
    body: { prompt: 'Hello' },
    field: 'max_tokens',
    ended: '"finish_reason":"length"',
    inStream: { stream_options: { include_usage: true } },
  },
  {
    path: '/v1/responses',
    body: { input: 'Hello' },
    field: 'max_output_tokens',
    ended: '"reason":"max_output_tokens"',
  },
];

describe('the number of tokens of a request that names none', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;

  beforeAll(async () => {
    const env = { STATOR_MAX_TOKENS_DEFAULT: String(DEFAULT), DYN_ENABLE_ANTHROPIC_API: 'true' };
    frontend = await fleet.frontend([], env);
    await fleet.worker(['--mock-output=random']); // goes on for as long as it may
    await fleet.untilWorkers(frontend, 1, MODEL);
  });

  /** Tokens of the answer by its usage, and all that was answered. */
  async function answered(path: string, body: object): Promise<{ readonly tokens: number; readonly text: string }> {
    const response = await postJson(`${frontend.url}${path}`, { model: MODEL, ...body });
    expect(response.status).toBe(200);
    const events: string[] = [];
    if (!('stream' in body)) events.push(await response.text());
    else for await (const data of sseData(response)) events.push(data);
    const text = events.join('\n');
    const counts = Array.from(text.matchAll(/"(?:completion|output)_tokens":(\d+)/g), ([, count]) => Number(count));
    return { tokens: counts.at(-1) ?? 0, text };
  }

  describe.each(DIALECTS)('of $path', ({ path, body, field, ended, inStream }) => {
    it.each([{}, { stream: true, ...inStream }])('is that of the deployment: %j', async (how) => {
      const { tokens, text } = await answered(path, { ...body, ...how });
      expect(tokens).toBe(DEFAULT);
      expect(text).toContain(ended);
    });

    it.each([DEFAULT + 20, DEFAULT - 5])('is the %d that a client names', async (number) => {
      expect((await answered(path, { ...body, [field]: number })).tokens).toBe(number);
    });
  });

  it('is that of the deployment where null is named, and for each of several choices', async () => {
    const body = { messages: MESSAGES, max_tokens: null, max_completion_tokens: null };
    expect((await answered('/v1/chat/completions', { ...body, n: 2 })).tokens).toBe(2 * DEFAULT);
  });

  it('is no matter of Messages, whose clients always name one', async () => {
    const { tokens } = await answered('/v1/messages', { messages: MESSAGES, max_tokens: DEFAULT + 20 });
    expect(tokens).toBe(DEFAULT + 20);
  });
});
