import { beforeAll, describe, expect, it } from 'vitest';
import { openChat, postJson, type StatorProcess, useFleet, waitUntil } from '../../support/index.ts';

const MODEL = 'stator-mini';
const SHORT = {
  model: MODEL,
  messages: [{ role: 'user', content: 'Is there room?' }],
  max_tokens: 4,
  ignore_eos: true,
};

describe('a fleet whose every worker is above a busy threshold', () => {
  const fleet = useFleet({ STATOR_LOAD_REPORT_INTERVAL_MS: '100' });
  let frontend: StatorProcess;

  beforeAll(async () => {
    [frontend] = await Promise.all([fleet.frontend(), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
  });

  it('refuses what comes with 503, ends what it has, and takes requests again', async () => {
    const chat = `${frontend.url}/v1/chat/completions`;
    const set = await postJson(`${frontend.url}/busy_threshold`, { model: MODEL, active_decode_blocks_threshold: 0 });
    expect(set.status).toBe(200);
    const running = await openChat(frontend.url, { ...SHORT, max_tokens: 600 });
    await running.untilDeltas(1);
    const refused = await waitUntil(
      async () => {
        const response = await postJson(chat, SHORT);
        return response.status === 200 ? undefined : response;
      },
      { what: 'a refusal' },
    );
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(await refused.json()).toMatchObject({ error: { type: 'overloaded_error', code: 'server_overloaded' } });
    expect(await frontend.metric('dynamo_frontend_model_rejection_total')).toBeGreaterThan(0);
    expect(await frontend.metric('dynamo_frontend_requests_total', 'error_type="overload"')).toBeGreaterThan(0);
    expect(await running.answer).toMatchObject({ finishReason: 'length', isDone: true });
    await waitUntil(async () => (await postJson(chat, SHORT)).status === 200, { what: 'room again' });
  });
});
