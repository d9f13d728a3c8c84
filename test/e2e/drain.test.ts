import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  type ChatAnswer,
  type ChatStream,
  openChat,
  readChat,
  type StatorProcess,
  saidIn,
  useFleet,
} from '../support/index.ts';

const MESSAGES = [{ role: 'user', content: 'What if a machine stops?' }];
/** Four seconds of the mock engine: a busy machine takes a while to start what the suite tells to stop. */
const LONG = {
  model: 'stator-mini',
  messages: MESSAGES,
  max_tokens: 600,
  ignore_eos: true,
  stream_options: { include_usage: true },
};
const MOVES = 'dynamo_frontend_model_migration_total';
const HASTY = { DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '0.2' };

describe('a worker told to stop', () => {
  const fleet = useFleet({ STATOR_LEASE_TTL_SECS: '2' });
  let frontend: StatorProcess;
  let whole: ChatAnswer;
  let workers: StatorProcess[] = [];

  beforeAll(async () => {
    frontend = await fleet.frontend();
    await started();
    whole = await readChat(frontend.url, LONG);
    await endAll();
  });

  afterEach(endAll);

  async function endAll(): Promise<void> {
    await Promise.all(workers.splice(0).map((worker) => worker.kill()));
    await fleet.untilWorkers(frontend, 0);
  }

  async function started(env: Readonly<Record<string, string>> = HASTY): Promise<StatorProcess> {
    const worker = await fleet.worker([], env);
    workers = [...workers, worker];
    await fleet.untilWorkers(frontend, workers.length);
    return worker;
  }

  async function opened(count: number, more: object = {}): Promise<readonly ChatStream[]> {
    const streams = await Promise.all(
      Array.from({ length: count }, () => openChat(frontend.url, { ...LONG, ...more })),
    );
    await Promise.all(streams.map((stream) => stream.untilDeltas(3)));
    return streams;
  }

  async function expectWhole(streams: readonly ChatStream[]): Promise<void> {
    for (const { answer } of streams) expect(saidIn(await answer)).toEqual(saidIn(whole));
  }

  it('lets 8 of 8 streams end where they are when it is the last one', async () => {
    const last = await started();
    const before = await frontend.metric(MOVES);
    const streams = await opened(8);
    last.signal('SIGTERM');
    await expectWhole(streams);
    expect(await last.exited).toBe(0);
    expect(last.stderr()).toMatch(/worker has drained.*finished=8 moved=0 failed=0/);
    expect(await frontend.metric(MOVES)).toBe(before);
  });

  it('hands what can move over to another one after the grace period, and keeps what is pinned, guided or of several choices', async () => {
    const stopping = await started();
    await started();
    const before = await frontend.metric(MOVES);
    const movable = await opened(8); // half of what is opened goes to each
    const guided = await opened(2, { nvext: { guided_regex: '.*' } });
    const several = await opened(2, { n: 2, temperature: 1 });
    const pinned = await opened(1, { nvext: { backend_instance_id: Number(`0x${stopping.instanceId}`) } });
    stopping.signal('SIGTERM');
    await expectWhole(movable);
    for (const { answer } of [...pinned, ...guided, ...several]) {
      expect(await answer).toMatchObject({ finishReason: 'length', error: undefined, isDone: true });
    }
    expect(await stopping.exited).toBe(0);
    expect(stopping.stderr()).toMatch(/worker has drained.*finished=3 moved=4 failed=0/);
    expect(await frontend.metric(MOVES)).toBe(before + 4);
  });

  it('fails what is left at the limit with an error that clients retry, and counts it', async () => {
    const last = await started({ ...HASTY, DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: '1' });
    const before = await frontend.metric(MOVES);
    const [stream] = await opened(1, { max_tokens: 7000 });
    last.signal('SIGTERM');
    expect(await stream?.answer).toMatchObject({
      error: { code: 'worker_lost' },
      finishReason: undefined,
      isDone: true,
    });
    expect(await last.exited).toBe(0);
    expect(last.stderr()).toMatch(/worker has drained.*finished=0 moved=0 failed=1/);
    expect(await frontend.metric(MOVES)).toBe(before);
  });

  it('ends at once when told again, and its stream goes on at the other one', async () => {
    const stopping = await started({ DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '60' });
    await started();
    const streams = await opened(2); // one goes to each
    stopping.signal('SIGTERM');
    await stopping.waitForOutput(/worker is draining/);
    const again = setInterval(() => stopping.signal('SIGTERM'), 100); // the first second counts as one wish
    expect(await stopping.exited).toBe(143);
    clearInterval(again);
    await expectWhole(streams);
  });
});
