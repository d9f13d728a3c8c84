import { describe, expect, it } from 'vitest';
import { isMigratable } from '../../../../shared/errors/index.ts';
import { ScriptedEngine, workerBed } from '../worker-bed.ts';

const LIMITS = { settings: { requestLimit: 2, requestQueueLimit: 3 } } as const;

async function admissionBed() {
  const engine = new ScriptedEngine();
  const bed = workerBed(engine);
  const worker = await bed.start(LIMITS);
  const ask = (id: string, more: Parameters<typeof bed.call>[2] = {}) => bed.call(worker, [1, 2, 3], { id, ...more });
  const atEngine = (): string[] => engine.requests.map(({ request }) => request.id);
  const gauges = async (): Promise<string[]> =>
    (await bed.metrics.render())
      .split('\n')
      .filter((line) => /^dynamo_(engine_request|request_queue|rejection_request_total)\{/.test(line))
      .map((line) => line.replace(/\{.*\}/, ''));
  return { ...bed, engine, worker, ask, atEngine, gauges };
}

describe('a worker with a limit of requests', () => {
  it('runs as many as its limit, lets a bounded number wait in order, and refuses the rest so that others take them', async () => {
    const { ask, atEngine, clock, engine, gauges } = await admissionBed();
    const asked = ['a', 'b', 'c', 'd', 'e', 'f'].map((id) => ask(id));
    await clock.advance(1);
    expect(atEngine()).toEqual(['a', 'b']);
    expect(asked.map(({ sink }) => sink.isAccepted)).toEqual([true, true, true, true, true, false]);
    const refusal = asked[5]?.sink.error;
    expect(refusal?.code).toBe('server_overloaded');
    expect(refusal !== undefined && isMigratable(refusal)).toBe(true);
    expect(await gauges()).toEqual([
      'dynamo_engine_request 2',
      'dynamo_request_queue 3',
      'dynamo_rejection_request_total 1',
    ]);
    for (let at = 0; at < 5; at++) {
      engine.requests[at]?.sink.end();
      await clock.advance(1);
    }
    expect(atEngine()).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(asked.slice(0, 5).every(({ sink }) => sink.end_)).toBe(true);
    expect((await gauges()).slice(0, 2)).toEqual(['dynamo_engine_request 0', 'dynamo_request_queue 0']);
  });

  it('forgets one that is given up while it waits, and never shows it to the engine', async () => {
    const { ask, atEngine, clock, engine, gauges, worker } = await admissionBed();
    const [, , killed, stopped, last] = ['a', 'b', 'c', 'd', 'e'].map((id) => ask(id));
    await clock.advance(1);
    killed?.call.kill();
    stopped?.call.stop();
    await clock.advance(1);
    expect(stopped?.sink.end_).toBe(true);
    expect(worker.activeRequests).toBe(3);
    expect((await gauges())[1]).toBe('dynamo_request_queue 1');
    engine.requests[0]?.sink.end();
    await clock.advance(1);
    expect(atEngine()).toEqual(['a', 'b', 'e']);
    expect(last?.sink.error).toBeUndefined();
  });

  it('ends one whose deadline passes while it waits', async () => {
    const { clock, atEngine, ask, call, worker } = { ...(await admissionBed()) };
    ask('a');
    ask('b');
    const late = call(worker, [1], { id: 'late' }, 200);
    await clock.advance(300);
    expect(late.sink.error?.worker).toBe('DeadlineExceeded');
    expect(atEngine()).toEqual(['a', 'b']);
  });

  it('answers canaries of frontends although it is full', async () => {
    const { ask, atEngine, clock, gauges } = await admissionBed();
    for (const id of ['a', 'b', 'c', 'd', 'e']) ask(id);
    ask('canary', { isHealthCheck: true });
    await clock.advance(1);
    expect(atEngine()).toEqual(['a', 'b', 'canary']);
    expect((await gauges())[0]).toBe('dynamo_engine_request 2');
  });

  it('reports what waits as part of its load, and offers no more sequences than it runs', async () => {
    const { ask, clock, follow, worker } = await admissionBed();
    const envelopes = await follow('kv_metrics');
    for (const id of ['a', 'b', 'c', 'd']) ask(id);
    await clock.advance(1100);
    expect(envelopes.at(-1)?.payload).toMatchObject({ active_prefill_tokens: 6 });
    expect(worker.card.runtime_config.max_num_seqs).toBe(2);
  });

  it('moves those that wait when it drains, without showing them to the engine', async () => {
    const { ask, atEngine, clock, metrics, worker } = await admissionBed();
    const asked = ['a', 'b', 'c'].map((id) => ask(id));
    await clock.advance(1);
    const draining = worker.drain();
    await clock.advance(6000);
    expect(await draining).toEqual({ finished: 0, moved: 3, failed: 0 });
    expect(asked.map(({ sink }) => sink.error?.worker)).toEqual(Array(3).fill('EngineShutdown'));
    expect(atEngine()).toEqual(['a', 'b']);
    expect(await metrics.render()).toMatch(/stator_worker_drained_requests_total\{[^}]*outcome="moved"[^}]*\} 3\n/);
  });
});
