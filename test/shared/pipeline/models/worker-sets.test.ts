import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { workerError } from '../../../../shared/errors/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { endpoint, openDiscovered, SECOND } from '../discovered.ts';
import { RecordingSink, request, type SeenCall } from '../fixtures.ts';

let fleet: Awaited<ReturnType<typeof openDiscovered>>;
beforeEach(async () => {
  fleet = await openDiscovered();
});
afterEach(() => fleet.close());

/** Sends requests until one goes to a worker as wanted, and returns it. */
async function askUntil(isWanted: (worker: string | undefined) => boolean) {
  for (let sent = 0; ; sent++) {
    const asked = await fleet.ask({ id: `r${sent}` });
    if (isWanted(workerOf(asked.call))) return asked;
  }
}

/** Reserves a worker for a request which another process sends. */
function place(admits: (worker: string) => boolean) {
  const { signal } = new AbortController();
  return fleet.pipeline.place(request(), new RecordingSink(), { signal, admits: ({ id }) => admits(id) });
}

const workerOf = ({ transport }: SeenCall): string | undefined => transport.memory;
const tokensOf = ({ request: { tokenIds } }: SeenCall): readonly number[] => [...(tokenIds ?? [])];

describe('generations of workers whose cards differ', () => {
  it('share the requests by their numbers of workers, each with prompts of its own', async () => {
    for (const id of ['a', 'b', 'c']) await fleet.register(id, 'prod-1');
    await fleet.register('d', 'prod-2', SECOND);
    const counts: Record<string, number> = { a: 0, b: 0, c: 0, d: 0 };
    for (let sent = 0; sent < 400; sent++) {
      const { call } = await fleet.ask({ id: `r${sent}` });
      const worker = workerOf(call) ?? '';
      counts[worker] = (counts[worker] ?? 0) + 1;
      expect(tokensOf(call)).toEqual(worker === 'd' ? [26, 25, 24] : [1, 2, 3]);
    }
    // A hundred each, give or take three standard deviations of the draw
    for (const count of Object.values(counts)) expect(Math.abs(count - 100)).toBeLessThan(27);
  });

  it('take nothing while a part of them is missing', async () => {
    await fleet.register('a', 'prod-1');
    await fleet.register('d', 'prod-2', { ...SECOND, worker_type: 'decode', needs: [['prefill']] });
    for (let sent = 0; sent < 20; sent++) expect(workerOf((await fleet.ask({ id: `r${sent}` })).call)).toBe('a');
  });

  it('take the requests that name their workers', async () => {
    await fleet.register('a', 'prod-1');
    await fleet.register('d', 'prod-2', SECOND);
    for (let sent = 0; sent < 20; sent++) {
      const named = sent % 2 === 0 ? 'a' : 'd';
      const { call } = await fleet.ask({ id: `r${sent}`, routing: { backend_instance_id: named } });
      expect(workerOf(call)).toBe(named);
    }
  });

  it('take the requests that another process may send only to their workers', async () => {
    await fleet.register('a', 'prod-1');
    await fleet.register('d', 'prod-2', SECOND);
    for (const allowed of 'ad'.repeat(10)) {
      const placed = await place((worker) => worker === allowed);
      expect(placed.decode.worker.id).toBe(allowed);
      placed.release();
    }
    await expect(place(() => false)).rejects.toMatchObject({ code: 'service_unavailable' });
  });

  it('take the kinds of requests that only one of them serves', async () => {
    await fleet.register('a', 'prod-1', { model_type: ['Chat'] });
    await fleet.register('d', 'prod-2', { ...SECOND, model_type: ['Completions'] });
    expect(workerOf((await fleet.ask({ endpoint: 'completions' })).call)).toBe('d');
    await expect(fleet.ask({ endpoint: 'embeddings' })).rejects.toMatchObject({ code: 'model_not_found' });
  });

  it('continue only the streams of workers like themselves', async () => {
    await fleet.register('a', 'prod-1');
    for (const id of ['d', 'e']) await fleet.register(id, 'prod-2', SECOND);
    const at = await askUntil((worker) => worker !== 'a');
    const calls = fleet.plane.calls.length;
    at.call.sink.accepted();
    at.call.sink.tokens(0, [4], 0, 1);
    at.call.sink.fail(workerError('Disconnected'));
    const next = await fleet.plane.seen(calls + 1);
    expect([workerOf(at.call), workerOf(next)].sort()).toEqual(['d', 'e']);
    expect(tokensOf(next)).toEqual([26, 25, 24, 4]);
    expect(at.sink.failure).toBeUndefined();
  });
});

describe('a model with several worker sets', () => {
  beforeEach(async () => {
    await fleet.register('a', 'prod-1');
    for (const id of ['d', 'e']) await fleet.register(id, 'prod-2', SECOND);
  });
  const most = { namespace: 'prod-2', workers: 2, all_workers: 3 };

  it('explains where a prompt would go in each of them, in its own tokens', async () => {
    const { worker_set, other_sets } = await fleet.explain({});
    expect(worker_set).toMatchObject(most);
    expect(other_sets).toMatchObject([{ worker_set: { namespace: 'prod-1', workers: 1, all_workers: 3 } }]);
    expect(fleet.explained.map(({ pool, tokenIds }) => [pool.key, [...(tokenIds ?? [])]])).toEqual([
      [worker_set?.card, [26, 25, 24]],
      [other_sets?.[0]?.worker_set?.card, [1, 2, 3]],
    ]);
  });

  it('explains a prompt for a named worker only in the set of that worker', async () => {
    const explanation = await fleet.explain({ routing: { backend_instance_id: 'a' } });
    expect(explanation).toMatchObject({ worker_set: { namespace: 'prod-1' } });
    expect(explanation).not.toHaveProperty('other_sets');
  });

  it('shows the tokens of the largest set, and says which it is', async () => {
    const { tokenIds, workerSet } = await fleet.pipeline.tokenize(request(), false);
    expect([...tokenIds]).toEqual([26, 25, 24]);
    expect(workerSet).toMatchObject(most);
    expect((await fleet.pipeline.vocabularyOf('letters')).workerSet).toMatchObject(most);
    for (const id of ['d', 'e']) await fleet.remove(endpoint(id, 'prod-2'));
    expect(await fleet.pipeline.tokenize(request(), false)).not.toHaveProperty('workerSet');
  });
});

describe('a worker set that has gone', () => {
  it('leaves its streams without a worker, and they fail', async () => {
    await fleet.register('a', 'prod-1');
    await fleet.register('d', 'prod-2', SECOND);
    const at = await askUntil((worker) => worker === 'a');
    at.call.sink.accepted();
    await fleet.remove(endpoint('a'));
    at.call.sink.tokens(0, [4], 0, 1);
    at.call.sink.fail(workerError('Disconnected'));
    await waitUntil(() => at.sink.failure !== undefined);
    expect(at.sink.shown).toBe('d');
  });

  it('leaves its requests without a token to another set, each with a prompt of its own', async () => {
    await fleet.register('a', 'prod-1');
    await fleet.register('d', 'prod-2', SECOND);
    const at = await askUntil((worker) => worker === 'a');
    const calls = fleet.plane.calls.length;
    at.call.sink.accepted();
    await fleet.remove(endpoint('a'));
    at.call.sink.fail(workerError('Disconnected'));
    const next = await fleet.plane.seen(calls + 1);
    expect([workerOf(next), tokensOf(next)]).toEqual(['d', [26, 25, 24]]);
    next.sink.accepted();
    next.sink.tokens(0, [4], 0, 1);
    expect([at.sink.shown, at.sink.failure]).toEqual(['d', undefined]);
  });

  it('leaves its requests to each other set once, and then they fail', async () => {
    await fleet.register('a', 'prod-1');
    await fleet.register('d', 'prod-2', SECOND);
    const at = await askUntil((worker) => worker === 'a');
    const calls = fleet.plane.calls.length;
    at.call.sink.fail(workerError('Disconnected'));
    (await fleet.plane.seen(calls + 1)).sink.fail(workerError('Disconnected'));
    await waitUntil(() => at.sink.failure !== undefined);
    expect(fleet.plane.calls).toHaveLength(calls + 1);
  });

  it('leaves its requests that wait for a worker to another set as soon as there is one', async () => {
    await fleet.close();
    fleet = await openDiscovered({ holdsMs: 60_000 });
    await fleet.register('a', 'prod-1');
    const { call, sink } = await fleet.ask();
    await fleet.remove(endpoint('a'));
    call.sink.fail(workerError('Disconnected'));
    await waitUntil(() => fleet.held() === 1);
    await fleet.register('d', 'prod-2', SECOND);
    const next = await fleet.plane.seen(2);
    expect([workerOf(next), tokensOf(next)]).toEqual(['d', [26, 25, 24]]);
    expect([fleet.held(), sink.failure]).toEqual([0, undefined]);
  });

  it('fails a request that names one of its workers', async () => {
    await fleet.register('a', 'prod-1');
    await fleet.register('d', 'prod-2', SECOND);
    const { call, sink } = await fleet.ask({ routing: { backend_instance_id: 'a' } });
    await fleet.remove(endpoint('a'));
    call.sink.fail(workerError('Disconnected'));
    await waitUntil(() => sink.failure !== undefined);
    expect(fleet.plane.calls).toHaveLength(1);
  });
});
