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
    const untilRefused = () =>
      waitUntil(
        async () => {
          const response = await postJson(chat, SHORT);
          return response.status === 200 ? undefined : response;
        },
        { what: 'a refusal' },
      );
    const untilRoom = () => waitUntil(async () => (await postJson(chat, SHORT)).status === 200, { what: 'room again' });
    // Loads are followed from the first request on that a threshold concerns: one that lasts until they are.
    const first = await openChat(frontend.url, { ...SHORT, max_tokens: 8000 });
    await untilRefused();
    first.leave();
    await untilRoom();
    // A report of the request that found room may come late, and refuse one more.
    const running = await waitUntil(() => openChat(frontend.url, { ...SHORT, max_tokens: 600 }), {
      what: 'a long request that is taken',
    });
    const refused = await untilRefused();
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(await refused.json()).toMatchObject({ error: { type: 'overloaded_error', code: 'server_overloaded' } });
    expect(await frontend.metric('dynamo_frontend_model_rejection_total')).toBeGreaterThan(0);
    expect(await frontend.metric('dynamo_frontend_requests_total', 'error_type="overload"')).toBeGreaterThan(0);
    expect(await running.answer).toMatchObject({ finishReason: 'length', isDone: true });
    await untilRoom();
  });
});

describe('workers with a limit of requests', () => {
  const fleet = useFleet({ DYN_ENGINE_REQUEST_LIMIT: '1', DYN_DYNAMO_REQUEST_QUEUE_LIMIT: '2' });

  it('pass on what they cannot take, and the client reads of an overload only if all are full', async () => {
    const [frontend, first] = await Promise.all([fleet.frontend(['--router-mode=round-robin']), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
    const long = { ...SHORT, max_tokens: 8000 }; // until its client leaves
    const ask = (count: number) =>
      Array.from({ length: count }, () => postJson(`${frontend.url}/v1/completions`, asked));
    const asked = { model: MODEL, prompt: 'Is there room?', max_tokens: 4, ignore_eos: true };
    const busy = await openChat(frontend.url, long); // the only place of the first worker
    await busy.untilDeltas(1);
    const waiting = ask(2);
    await waitUntil(async () => (await first.metric('dynamo_request_queue')) === 2, { what: 'a full worker' });
    expect((await Promise.all(ask(3))).map(({ status }) => status)).toEqual([503, 503, 503]);
    const second = await fleet.worker();
    await fleet.untilWorkers(frontend, 2);
    const moved = (): Promise<number> => frontend.metric('dynamo_frontend_model_migration_total', 'new_request');
    const movedBefore = await moved(); // by the refusals above
    // One that refused is passed over for a second; after that it is tried again.
    let answered = 0;
    await waitUntil(
      async () => {
        expect((await Promise.all(ask(1)))[0]?.status).toBe(200);
        answered++;
        return (await moved()) > movedBefore;
      },
      { what: 'a request that came to the full worker first' },
    );
    expect(await second.metric('dynamo_component_requests_total')).toBe(answered);
    busy.leave();
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200]);
    expect(await first.metric('dynamo_rejection_request_total')).toBeGreaterThan(0);
    expect(await first.metric('dynamo_engine_request')).toBe(0);
  });
});
