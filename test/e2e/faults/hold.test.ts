import { beforeAll, describe, expect, it } from 'vitest';
import { openChat, postJson, readChat, type StatorProcess, useFleet, waitUntil } from '../../support/index.ts';

const SHORT = {
  model: 'stator-mini',
  messages: [{ role: 'user', content: 'Who is there?' }],
  max_tokens: 8,
  ignore_eos: true,
};

const HELD = 'stator_frontend_held_requests';

describe('a model whose last worker has left', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;
  let worker: StatorProcess;

  beforeAll(async () => {
    const hold = ['--hold-timeout=20', '--hold-max=3'];
    [frontend, worker] = await Promise.all([fleet.frontend(hold), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
  });

  async function leave(): Promise<void> {
    worker.signal('SIGTERM');
    expect(await worker.exited).toBe(0);
    await fleet.untilWorkers(frontend, 0);
  }

  async function untilHeld(count: number): Promise<void> {
    await waitUntil(async () => (await frontend.metric(HELD)) === count, { what: `${count} held requests` });
  }

  it('keeps its requests until a worker comes; streams begin with comments; more than the bound get 503', async () => {
    await leave();
    const unary = postJson(`${frontend.url}/v1/chat/completions`, SHORT);
    const stream = openChat(frontend.url, SHORT);
    const messages = postJson(`${frontend.url}/v1/completions`, {
      model: SHORT.model,
      prompt: 'Who',
      max_tokens: 8,
      ignore_eos: true,
    });
    await untilHeld(3);
    await frontend.waitForOutput(/requests wait for a worker model=stator-mini requests=1/);
    const refused = await postJson(`${frontend.url}/v1/chat/completions`, SHORT);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ error: { type: 'server_error', code: 'service_unavailable' } });
    const opened = await stream; // its head leaves before any worker is there
    expect(await frontend.metric(HELD)).toBe(3);

    worker = await fleet.worker();
    expect((await unary).status).toBe(200);
    expect((await messages).status).toBe(200);
    expect(await opened.answer).toMatchObject({ finishReason: 'length', isDone: true, error: undefined });
    await untilHeld(0);
    expect(await frontend.metric('stator_frontend_hold_seconds_count', 'outcome="served"')).toBe(3);
    expect(await frontend.metric('stator_frontend_hold_refused_total')).toBe(1);
  });

  it('forgets the requests of clients that leave', async () => {
    await leave();
    const leaving = new AbortController();
    const init = { signal: leaving.signal };
    const asked = [SHORT, { ...SHORT, stream: true }].map((body) =>
      postJson(`${frontend.url}/v1/chat/completions`, body, init),
    );
    for (const response of asked) response.catch(() => undefined); // aborted below
    await untilHeld(2);
    leaving.abort();
    await untilHeld(0);
    expect(await frontend.metric('dynamo_frontend_inflight_requests')).toBe(0);
    expect(await frontend.metric('stator_frontend_hold_seconds_count', 'outcome="cancelled"')).toBe(2);
  });

  it('is absent from the list of models, and a name that no worker ever served is not held', async () => {
    expect(await (await fetch(`${frontend.url}/v1/models`)).json()).toEqual({ object: 'list', data: [] });
    const unknown = await postJson(`${frontend.url}/v1/chat/completions`, { ...SHORT, model: 'nobody' });
    expect(unknown.status).toBe(404);
  });

  it('keeps a stream in its middle, too: another worker goes on with it once there is one', async () => {
    worker = await fleet.worker(['--decode-speedup-ratio=0.1']); // ten seconds of it lie before its end
    await fleet.untilWorkers(frontend, 1);
    const long = { ...SHORT, max_tokens: 160, stream_options: { include_usage: true } };
    const stream = await openChat(frontend.url, long);
    await stream.untilDeltas(5);
    await worker.kill();
    await untilHeld(1);
    worker = await fleet.worker();
    const answer = await stream.answer;
    const whole = await readChat(frontend.url, long);
    expect(answer).toEqual({ ...whole, ids: answer.ids });
  });
});

describe('a flood of requests for a model without workers', () => {
  const fleet = useFleet();

  it('reaches the first worker that comes no faster than it takes them, in order, and all are served', async () => {
    const [frontend, first] = await Promise.all([fleet.frontend(['--hold-timeout=60']), fleet.worker()]);
    await fleet.untilWorkers(frontend, 1);
    first.signal('SIGTERM');
    await first.exited;
    await fleet.untilWorkers(frontend, 0);
    const count = 40;
    const ends: number[] = [];
    const asked: Promise<unknown>[] = [];
    for (let at = 0; at < count; at++) {
      const asking = postJson(`${frontend.url}/v1/chat/completions`, { ...SHORT, max_tokens: 16 });
      asked.push(asking.then(({ status }) => ends.push(status === 200 ? at : Number.NaN)));
      await waitUntil(async () => (await frontend.metric(HELD)) === at + 1, { what: `${at + 1} held requests` });
    }
    // One that takes four and lets two more wait would refuse most of a flood.
    const limits = { DYN_ENGINE_REQUEST_LIMIT: '4', DYN_DYNAMO_REQUEST_QUEUE_LIMIT: '2', DYN_SYSTEM_PORT: '0' };
    const worker = await fleet.worker([], limits);
    await Promise.all(asked);
    expect(ends).toHaveLength(count);
    expect(Math.max(...ends.map((at, place) => Math.abs(at - place)))).toBeLessThan(8); // those at once end in any order
    expect(await frontend.metric('stator_frontend_hold_seconds_count', 'outcome="served"')).toBe(count);
    expect(await frontend.metric('dynamo_frontend_model_migration_total')).toBe(0); // nothing was refused
    await worker.kill();
  });
});
