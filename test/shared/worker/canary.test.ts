import { describe, expect, it } from 'vitest';
import { workerError } from '../../../shared/errors/index.ts';
import type { WorkerOptions } from '../../../shared/worker/options.ts';
import { ScriptedEngine, workerBed } from './worker-bed.ts';

const CANARY = { idleMs: 10_000, timeoutMs: 3000 } as const;

async function canaryBed(canary: object = {}, more: Partial<WorkerOptions> = {}) {
  const engine = new ScriptedEngine();
  const bed = workerBed(engine);
  const worker = await bed.start({ ...more, settings: { canary: { ...CANARY, ...canary } } });
  const answer = (index: number): void => engine.requests[index]!.sink.tokens(0, [7], 0, 1);
  return { ...bed, engine, worker, answer };
}

describe('a worker with an idle engine', () => {
  it('sends it one greedy token after the idle time, and nothing while it answers others', async () => {
    const { clock, engine, answer, health } = await canaryBed();
    await clock.advance(9000);
    expect(engine.requests).toHaveLength(0);
    await clock.advance(1500);
    expect(engine.requests[0]?.request).toMatchObject({
      model: 'm',
      input: { kind: 'tokens', tokenIds: Uint32Array.of(1) },
      stop: { max_tokens: 1 },
      sampling: { temperature: 0 },
      isHealthCheck: true,
    });
    answer(0);
    engine.requests[0]?.sink.end();
    await clock.advance(9000);
    expect(engine.requests).toHaveLength(1);
    expect(health.status).toBe('ready');
  });

  it('begins it as texts of the model do', async () => {
    const { clock, engine } = await canaryBed({}, { model: { bosTokenId: 151_643 } });
    await clock.advance(11_000);
    expect(engine.requests[0]?.request).toMatchObject({ input: { kind: 'tokens', tokenIds: Uint32Array.of(151_643) } });
  });

  it('counts any answer as proof', async () => {
    const { call, clock, engine, worker } = await canaryBed();
    call(worker, [1]);
    for (let second = 0; second < 30; second++) {
      engine.requests[0]?.sink.tokens(0, [5], 0, 1);
      await clock.advance(1000);
    }
    expect(engine.requests).toHaveLength(1);
  });

  it('sends the payload that operators set, marked as a probe', async () => {
    const payload = { token_ids: [4, 5], stop_conditions: { max_tokens: 2 } };
    const { clock, engine } = await canaryBed({ payload });
    await clock.advance(11_000);
    expect(engine.requests[0]?.request).toMatchObject({
      input: { kind: 'tokens', tokenIds: Uint32Array.of(4, 5) },
      stop: { max_tokens: 2 },
      isHealthCheck: true,
    });
  });

  it('counts no canary as a request, its own or a frontend’s', async () => {
    const { answer, call, clock, engine, metrics, worker } = await canaryBed();
    await clock.advance(11_000);
    answer(0);
    call(worker, [1], { isHealthCheck: true });
    await clock.advance(10);
    answer(1);
    engine.requests[1]?.sink.end();
    await clock.advance(10);
    expect(await metrics.render()).toMatch(/dynamo_component_requests_total\{[^}]*\} 0\n/);
  });
});

describe('an engine that has not answered yet', () => {
  const warmUpMs = 60_000;

  it('may take longer for its first answer than for later canaries, whichever request gets that answer', async () => {
    const { answer, call, clock, engine, health, worker } = await canaryBed({ warmUpMs });
    await clock.advance(9000);
    call(worker, [1]); // compiles for 16 s
    await clock.advance(16_000);
    expect([engine.requests.length, health.status]).toEqual([2, 'ready']); // the canary waits behind it
    answer(0);
    answer(1);
    await clock.advance(1000);
    expect(call(worker, [2]).sink.error).toBeUndefined();
    expect(health.status).toBe('ready');
  });

  it('is in doubt after that time, and from its first answer on after the usual one', async () => {
    const dead = await canaryBed({ warmUpMs });
    await dead.clock.advance(10_000 + warmUpMs);
    expect(dead.health.status).toBe('ready');
    await dead.clock.advance(2000);
    expect(dead.health.status).toBe('notready');
    const warm = await canaryBed({ warmUpMs });
    await warm.clock.advance(11_000);
    warm.answer(0);
    warm.engine.requests[0]?.sink.end();
    await warm.clock.advance(14_000);
    expect(warm.health.status).toBe('notready');
  });
});

describe('a worker whose engine fails its canary', () => {
  it.each([
    ['says nothing', () => {}],
    ['fails', (engine: ScriptedEngine) => engine.requests.at(-1)?.sink.fail(workerError('Internal'))],
    ['ends without an answer', (engine: ScriptedEngine) => engine.requests.at(-1)?.sink.end()],
  ])(
    'and %s: takes no new request at once, leaves discovery at the third time, and returns with one that passes',
    async (_, act) => {
      const { answer, call, clock, engine, health, records, worker } = await canaryBed();
      const present = (await records()).length;
      const fail = async (): Promise<void> => {
        const sent = engine.requests.length;
        while (engine.requests.length === sent) await clock.advance(750);
        act(engine);
        await clock.advance(3000);
      };
      await fail();
      expect(health.status).toBe('notready');
      const refused = call(worker, [1]);
      await clock.advance(1);
      expect(refused.sink.error?.worker).toBe('WorkerUnavailable');
      expect(await records()).toHaveLength(present);
      await fail();
      await fail();
      await clock.advance(10);
      expect(await records()).toEqual([]);

      const sent = engine.requests.length;
      while (engine.requests.length === sent) await clock.advance(750);
      answer(sent);
      await clock.advance(5000);
      expect(await records()).toHaveLength(present);
      expect(health.status).toBe('ready');
      const served = call(worker, [1]);
      await clock.advance(1);
      expect(served.sink.isAccepted).toBe(true);
    },
  );

  it('leaves no canary behind when it drains', async () => {
    const { clock, discovery, worker } = await canaryBed();
    await clock.advance(11_000); // one is on its way
    const draining = worker.drain();
    await clock.advance(6000);
    await draining;
    await discovery.close();
    await clock.advance(60_000);
    expect(clock.pendingTimers).toBe(0);
  });
});
