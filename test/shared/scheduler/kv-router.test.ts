import { describe, expect, it } from 'vitest';
import { BlockIndex } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import { keyOfText, type RoutableWorker, type RouteRequest, type WorkerPool } from '../../../shared/router/index.ts';
import { askingRouter } from '../../../shared/router-service/index.ts';
import {
  createKeyedTracking,
  type Decision,
  Inhibition,
  KvRouter,
  type QueuePlace,
  type SchedulingRequest,
} from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import type { KvRouterOptions } from '../../../shared/scheduler/kv-router.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { choose } from '../../support/router/choose.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { promptTokens } from './pool.ts';

const NEVER = new AbortController().signal;
const pool: WorkerPool = { key: 'sum', model: 'm', role: 'aggregated', blockSizeTokens: 16 };

function worker(id: string, more: Partial<RoutableWorker> = {}): RoutableWorker {
  return { id, dataParallelStartRank: 0, dataParallelSize: 1, deviceType: undefined, taints: [], ...more };
}

function request(id: string, tokens: Uint32Array, more: Partial<RouteRequest> = {}): RouteRequest {
  return { id, pool, routing: {}, override: undefined, tokenIds: tokens, excluded: new Set(), ...more };
}

function router(options: Partial<KvRouterOptions> = {}, clock = new VirtualClock()) {
  return new KvRouter<RoutableWorker>({
    config: kvRouterConfig({ queueThreshold: 0 }),
    clock,
    random: seededRandom(3),
    indexFor: (_, ranks) => new BlockIndex({ ranks }),
    ...options,
  });
}

const two = [worker('a', { maxNumBatchedTokens: 1000 }), worker('b', { maxNumBatchedTokens: 1000 })];

/** Cached by the worker, as its events would tell. */
function store(routing: ReturnType<typeof router>, workerId: string, tokens: Uint32Array, scope = {}): void {
  const { index, ranks } = routing.setWorkers(pool, two);
  const { local, sequence } = hashBlocks(tokens, { blockSizeTokens: 16, ...scope });
  (index as BlockIndex).stored(ranks.find(workerId, 0)!, 'device', undefined, sequence, local);
}

describe('mode kv', () => {
  it('hashes the prompt itself and goes where it is cached', async () => {
    const routing = router();
    const prompt = promptTokens(160);
    store(routing, 'b', prompt);
    const held = await choose(routing, request('r', prompt), two);
    expect(held).toMatchObject({ worker: two[1], dpRank: 0, overlapBlocks: 10, cachedTokens: 160 });
    expect(routing.explained('r')?.chosen).toMatchObject({ worker_id: 'b' });
  });

  it('learns from its requests that a worker is slow, and sends others elsewhere', async () => {
    const clock = new VirtualClock();
    const routing = router({ config: kvRouterConfig({ costModel: 'stator' }) }, clock);
    for (let at = 0; at < 400; at++) {
      const [other, stepMs] = at % 2 === 0 ? ['b', 10] : ['a', 40];
      const held = await choose(routing, request(`r${at}`, promptTokens(160, at), { excluded: new Set([other]) }), two);
      held.prefillDone();
      await clock.advance(100 * stepMs);
      held.produced(101);
      held.release();
    }
    for (let at = 0; at < 10; at++) {
      const held = await choose(routing, request(`s${at}`, promptTokens(160, 1000 + at)), two);
      expect(held.worker.id).toBe('a');
      held.release();
    }
  });

  it.each(['many', -1e9, Number.NaN])('takes %s expected output tokens for an unknown number', (tokens) => {
    const routing = router({ config: kvRouterConfig({ costModel: 'stator' }) });
    routing.setWorkers(pool, two);
    const costsWith = (hints: Readonly<Record<string, unknown>>) =>
      routing.explain(request('r', promptTokens(160), { routing: hints })).candidates.map(({ cost }) => cost);
    expect(costsWith({ expected_output_tokens: tokens })).toEqual(costsWith({}));
  });

  it('explains both decisions of a request whose prompt is computed apart', async () => {
    const routing = router();
    const prompt = promptTokens(160);
    const prefill: WorkerPool = { ...pool, key: 'sum.prefill', role: 'prefill' };
    await choose(routing, request('r', prompt, { pool: prefill }), [worker('p')]);
    expect(routing.explained('r')).toMatchObject({ chosen: { worker_id: 'p' } });
    await choose(routing, request('r', prompt, { pool: { ...pool, role: 'decode' } }), [worker('d')]);
    expect(routing.explained('r')).toMatchObject({
      chosen: { worker_id: 'd' },
      prefill: { request_id: 'r', prompt_tokens: 160, chosen: { worker_id: 'p' }, candidates: [{ worker_id: 'p' }] },
    });
  });

  it('knows running requests by keyed names, and caches by the public ones', async () => {
    const tracking = createKeyedTracking({ key: new Uint8Array(32).fill(7), keyId: 'one' });
    const told: SchedulingRequest[] = [];
    const peers = {
      booked: (_pool: WorkerPool, _decision: unknown, asked: SchedulingRequest) => void told.push(asked),
      prefillDone: () => {},
      ended: () => {},
      waits: () => {},
      decidesTwice: true,
    };
    const routing = router({ tracking, peers });
    const prompt = promptTokens(160);
    store(routing, 'b', prompt);
    const held = await choose(routing, request('r1', prompt), two);
    expect(held).toMatchObject({ worker: two[1], overlapBlocks: 10 });
    await choose(routing, request('r2', prompt), two);
    const { sequence } = hashBlocks(prompt, { blockSizeTokens: 16 });
    const keyed = tracking.activeHashes(request('r1', prompt), pool, { local: new Uint32Array(0), sequence });
    expect(told.map(({ activeHashes }) => activeHashes)).toEqual([keyed, keyed]);
    const { scheduler } = routing.setWorkers(pool, two);
    const load = () => scheduler.loads().map(({ activeDecodeBlocks }) => activeDecodeBlocks);
    expect(load()).toEqual([0, 10]); // both run on the same blocks
    const booking = { workerId: 'b', dpRank: 0, promptTokens: 160, uncachedTokens: 0 };
    scheduler.book({ ...booking, requestId: 'peer', hashes: { local: new Uint32Array(0), sequence: keyed } });
    expect(load()).toEqual([0, 10]);
    scheduler.book({ ...booking, requestId: 'unkeyed', hashes: { local: new Uint32Array(0), sequence } });
    expect(load()).toEqual([0, 20]);
  });

  it('tells other routers of a place in the queue, and of its end if the client leaves', async () => {
    const told: string[] = [];
    const peers = {
      booked: (_pool: WorkerPool, { requestId }: Decision) => void told.push(`booked ${requestId}`),
      prefillDone: () => {},
      ended: (_pool: WorkerPool, { requestId }: Pick<Decision, 'requestId'>) => void told.push(`ended ${requestId}`),
      waits: (_pool: WorkerPool, place: QueuePlace) => void told.push(`${place.requestId}: ${place.uncachedTokens}`),
      decidesTwice: true,
    };
    const routing = router({ config: kvRouterConfig({ costModel: 'stator', queueThreshold: 'auto' }), peers });
    const first = await choose(routing, request('r1', promptTokens(8000, 1)), two);
    await choose(routing, request('r2', promptTokens(8000, 2)), two);
    const leaving = new AbortController();
    const left = routing.choose(request('r3', promptTokens(4800, 3)), leaving.signal);
    const next = routing.choose(request('r4', promptTokens(6400, 4)), new AbortController().signal);
    leaving.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    first.prefillDone();
    await next;
    expect(told).toEqual(['booked r1', 'booked r2', 'r3: 4800', 'r4: 6400', 'ended r3', 'booked r4']);
  });

  it('keeps adapters and tenants apart', async () => {
    const routing = router();
    const prompt = promptTokens(160);
    store(routing, 'b', prompt, { loraName: 'x', cacheSalt: 'tenant' });
    const plain = await choose(routing, request('r1', prompt), two);
    expect(plain.cachedTokens).toBe(0);
    plain.release();
    const routed = { lora_name: 'x', cache_salt: 'tenant' };
    expect((await choose(routing, request('r2', prompt, { routing: routed }), two)).worker.id).toBe('b');
  });

  it('sends a prompt that no worker is known to have cached to its home, unless another has more cached or less load', async () => {
    for (const costModel of ['stator', 'dynamo'] as const) {
      const routing = router({ config: kvRouterConfig({ costModel, queueThreshold: undefined }) });
      routing.setWorkers(pool, two);
      const home = (text: string, tokens = 64) => ({ key: keyOfText(text), tokens });
      const at = async (id: string, more: Partial<RouteRequest>, tokens = promptTokens(8)) => {
        const held = await routing.choose(request(id, tokens, more), NEVER);
        held.release();
        return held.worker.id;
      };
      const homes = new Set<string>();
      for (let picture = 0; picture < 8; picture++) {
        const first = await at(`${picture}`, { home: home(`${picture}`) });
        expect(await at(`${picture} again`, { home: home(`${picture}`) })).toBe(first);
        homes.add(first);
      }
      expect(homes.size).toBe(2);
      const prompt = promptTokens(160);
      store(routing, 'b', prompt);
      const elsewhere = ['p', 'q', 'r', 's', 't', 'u'].map((name) => home(name, 16));
      for (const [nr, each] of elsewhere.entries()) expect(await at(`cached ${nr}`, { home: each }, prompt)).toBe('b');
    }
  });

  describe('with an adapter that some workers of a pool have', () => {
    const adapted: WorkerPool = { ...pool, key: 'adapter', model: 'tuned', base: pool };
    const [a, b] = two as [RoutableWorker, RoutableWorker];
    const asked = (id: string, tokens: Uint32Array): RouteRequest =>
      request(id, tokens, { pool: adapted, routing: { lora_name: 'tuned' } });

    it('sends its requests only to those, where its own blocks are cached', async () => {
      const routing = router();
      const prompt = promptTokens(160);
      store(routing, 'a', prompt, { loraName: 'tuned' });
      store(routing, 'b', prompt);
      routing.setWorkers(adapted, two);
      expect(await routing.choose(asked('r1', prompt), NEVER)).toMatchObject({ worker: a, cachedTokens: 160 });
      routing.setWorkers(adapted, [b]);
      expect(await routing.choose(asked('r2', prompt), NEVER)).toMatchObject({ worker: b, cachedTokens: 0 });
      expect(routing.pools).toHaveLength(1);
    });

    it('counts its requests as load of the base model, and the other way round', async () => {
      const routing = router({ config: kvRouterConfig({ costModel: 'dynamo' }) });
      routing.setWorkers(pool, two);
      routing.setWorkers(adapted, [b]);
      const held = await routing.choose(asked('r1', promptTokens(160, 1)), NEVER);
      expect(held.worker).toBe(b);
      expect((await routing.choose(request('r2', promptTokens(160, 2)), NEVER)).worker).toBe(a);
    });

    it('fails its waiting requests when it is unloaded, and no others', async () => {
      const routing = router();
      routing.setWorkers(pool, two);
      routing.setWorkers(adapted, two);
      const held = await Promise.all(
        ['r1', 'r2'].map((id, at) => routing.choose(request(id, promptTokens(160, at)), NEVER)),
      );
      const base = routing.choose(request('r3', promptTokens(160, 3)), NEVER);
      const lost = routing.choose(asked('r4', promptTokens(160, 4)), NEVER);
      routing.removePool(adapted);
      await expect(lost).rejects.toMatchObject({ code: 'service_unavailable' });
      for (const reservation of held) reservation.release();
      expect(two).toContain((await base).worker);
      routing.removePool(pool);
      expect(routing.pools).toEqual([]);
    });
  });

  it('waits for room, and leaves the queue when the caller does', async () => {
    const clock = new VirtualClock();
    const routing = router({}, clock);
    const held = await Promise.all(
      ['r1', 'r2'].map((id, at) => choose(routing, request(id, promptTokens(160, at)), two)),
    );
    const gone = new AbortController();
    const abandoned = choose(routing, request('r3', promptTokens(160, 3)), two, gone.signal);
    const waiting = choose(routing, request('r4', promptTokens(160, 4)), two);
    const [{ scheduler }] = routing.pools as [(typeof routing.pools)[number]];
    expect(scheduler.pendingRequests).toBe(2);
    gone.abort(new Error('client gone'));
    await expect(abandoned).rejects.toThrow('client gone');
    expect(scheduler.pendingRequests).toBe(1);
    held[0]?.prefillDone();
    expect((await waiting).worker).toBe(held[0]?.worker);
    for (const reservation of held) reservation.release();
    (await waiting).release();
    (await waiting).release();
    expect(scheduler.activeRequests).toBe(0);
    routing.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it('checks the queue when time opens it', async () => {
    const clock = new VirtualClock();
    const routing = router({ config: kvRouterConfig({ costModel: 'stator' }) }, clock);
    const one = [worker('a')];
    await choose(routing, request('r1', promptTokens(1000, 1)), one);
    const waiting = choose(routing, request('r2', promptTokens(1600, 2)), one);
    let isDecided = false;
    void waiting.then(() => {
      isDecided = true;
    });
    await clock.advance(20);
    expect(isDecided).toBe(false);
    await clock.advance(1);
    expect(isDecided).toBe(true);
  });

  it('fails waiting requests when it closes or the model goes', async () => {
    for (const end of ['close', 'removePool'] as const) {
      const routing = router();
      const one = [worker('a')];
      await choose(routing, request('r1', promptTokens(160, 1)), one);
      const waiting = choose(routing, request('r2', promptTokens(160, 2)), one);
      routing[end](pool);
      await expect(waiting).rejects.toMatchObject({
        code: 'service_unavailable',
        failure: { kind: 'SubscriberShutdown' },
      });
      expect(routing.pools).toEqual([]);
    }
  });

  it('passes over a worker that failed for five seconds', async () => {
    const clock = new VirtualClock();
    const inhibition = new Inhibition(clock, 5000);
    const routing = router({ config: kvRouterConfig({ queueThreshold: undefined }), inhibition }, clock);
    inhibition.add('a');
    for (let at = 0; at < 4; at++) {
      expect((await choose(routing, request(`r${at}`, promptTokens(16, at)), two)).worker.id).toBe('b');
    }
    await clock.advance(5001);
    expect((await choose(routing, request('later', promptTokens(16, 9)), two)).worker.id).toBe('a');
  });

  it('goes where the request is pinned, in the role of its pool', async () => {
    const routing = router({ config: kvRouterConfig({ queueThreshold: undefined }) });
    const hints = { prefill_worker_id: 'a', decode_worker_id: 'b' };
    const at = async (role: WorkerPool['role'], id: string) =>
      (await choose(routing, request(id, promptTokens(16), { pool: { ...pool, role }, routing: hints }), two)).worker
        .id;
    expect([await at('prefill', 'r1'), await at('decode', 'r2'), await at('aggregated', 'r3')]).toEqual([
      'a',
      'b',
      'b',
    ]);
  });

  it('counts no blocks in a pool of prefill workers', async () => {
    const routing = router();
    const held = await choose(routing, request('r', promptTokens(160), { pool: { ...pool, role: 'prefill' } }), two);
    const loads = routing.pools[0]?.scheduler.loads();
    expect(loads?.find(({ workerId }) => workerId === held.worker.id)).toMatchObject({
      activeDecodeBlocks: 0,
      activePrefillTokens: 160,
    });
  });

  it('decides only by load for prompts without tokens, and without an index if the credit is 0', async () => {
    let asked = 0;
    const routing = router({
      config: kvRouterConfig({ overlapScoreCredit: 0, queueThreshold: undefined }),
      indexFor: () => {
        asked++;
        return undefined;
      },
    });
    const text = { tokenIds: undefined, pool: { ...pool, blockSizeTokens: 0 } };
    const chosen = new Set<string>();
    for (let at = 0; at < 20; at++) {
      chosen.add((await choose(routing, request(`r${at}`, new Uint32Array(0), text), two)).worker.id);
    }
    expect([...chosen].sort()).toEqual(['a', 'b']);
    expect(asked).toBe(0);
  });

  it('narrows to workers that have the adapter, unless none says so', async () => {
    const routing = router({ config: kvRouterConfig({ queueThreshold: undefined }) });
    const workers = [worker('a'), worker('b', { loraNames: ['x'] }), worker('c')];
    const chosen = new Set<string>();
    for (let at = 0; at < 30; at++) {
      const asked = request(`r${at}`, promptTokens(16, at), { routing: { lora_name: 'x' } });
      expect((await choose(routing, asked, workers)).worker.id).toBe('b');
      const other = request(`s${at}`, promptTokens(16, at), { routing: { lora_name: 'y' } });
      chosen.add((await choose(routing, other, workers)).worker.id);
    }
    expect(chosen.size).toBeGreaterThan(1);
  });

  it('does nothing for a request that was cancelled already', async () => {
    await expect(
      choose(router(), request('r', promptTokens(16)), two, AbortSignal.abort(new Error('gone'))),
    ).rejects.toThrow('gone');
  });

  it('shows what it would do without doing it', () => {
    const routing = router();
    routing.setWorkers(pool, two);
    expect(routing.explain(request('r', promptTokens(64))).candidates).toHaveLength(2);
    expect(routing.pools[0]?.scheduler.activeRequests).toBe(0);
  });
});

describe('a router that waits for something before it chooses', () => {
  const [a, b] = two as [RoutableWorker, RoutableWorker];
  const prompt = promptTokens(160);

  it('takes nothing from workers that join meanwhile: no blocks, no bookings', async () => {
    const routing = router({ config: kvRouterConfig({ queueThreshold: undefined }) });
    routing.setWorkers(pool, [a]);
    let answered = (): void => {};
    const asking = askingRouter(
      routing,
      () =>
        ({
          look: () =>
            new Promise<void>((resolve) => {
              answered = () => resolve();
            }),
        }) as never,
    );
    const late = asking.choose(request('late', promptTokens(16, 1)), NEVER);
    store(routing, 'b', prompt); // b joins, and has cached the prompt
    const held = await routing.choose(request('running', prompt), NEVER);
    expect(held.worker).toBe(b);
    answered();
    await late;
    const { index, ranks, scheduler } = routing.find(pool)!;
    const rank = ranks.find('b', 0)!;
    const blocks = index as BlockIndex;
    expect(blocks.blocksOf(rank)).toBe(10);
    expect(scheduler.isActive('running')).toBe(true);
    const longer = hashBlocks(promptTokens(176), { blockSizeTokens: 16 });
    const parent = [longer.sequence[18]!, longer.sequence[19]!] as const;
    const next = blocks.stored(rank, 'device', parent, longer.sequence.slice(20), longer.local.slice(20));
    expect(next).toBe('ok'); // the worker's next event continues what it has
    expect(await routing.choose(request('again', prompt), NEVER)).toMatchObject({ worker: b, overlapBlocks: 10 });
    held.release();
    expect(scheduler.isActive('running')).toBe(false);
  });

  it('does not bring back a worker that left meanwhile', async () => {
    const routing = router();
    store(routing, 'b', prompt);
    routing.setWorkers(pool, [a]);
    expect((await routing.choose(request('late', prompt), NEVER)).worker).toBe(a);
  });

  it('finds no worker in a pool that is unknown or gone', async () => {
    const routing = router();
    const unavailable = { code: 'service_unavailable' };
    await expect(routing.choose(request('early', prompt), NEVER)).rejects.toMatchObject(unavailable);
    expect(() => routing.explain(request('early', prompt))).toThrow(expect.objectContaining(unavailable));
    routing.setWorkers(pool, two);
    expect((await routing.choose(request('r', prompt), NEVER)).worker.id).toMatch(/[ab]/);
    routing.removePool(pool);
    await expect(routing.choose(request('late', prompt), NEVER)).rejects.toMatchObject(unavailable);
  });
});

describe('sessions', () => {
  const inSession = (id: string, seed: number, more: Partial<RouteRequest> = {}) =>
    request(id, promptTokens(160, seed), { routing: { session_id: 's' }, ...more });
  const config = kvRouterConfig({ queueThreshold: undefined });

  it('stay with the worker of their first request, however loaded it is', async () => {
    const routing = router({ config, sessionAffinity: { ttlMs: 1000 } });
    const first = await choose(routing, inSession('r0', 0), two);
    for (let at = 1; at < 10; at++) {
      expect((await choose(routing, inSession(`r${at}`, at), two)).worker).toBe(first.worker);
    }
  });

  it('are bound apart for a base model and an adapter that not every worker has', async () => {
    const [a, b] = two as [RoutableWorker, RoutableWorker];
    const adapted: WorkerPool = { ...pool, key: 'adapter', model: 'tuned', base: pool };
    const routing = router({ config, sessionAffinity: { ttlMs: 1000 } });
    routing.setWorkers(pool, two);
    routing.setWorkers(adapted, [b]);
    const atA = inSession('r0', 0, { excluded: new Set(['b']) });
    expect((await routing.choose(atA, NEVER)).worker).toBe(a);
    for (let at = 1; at < 6; at++) {
      const tuned = inSession(`t${at}`, at, { pool: adapted, routing: { session_id: 's', lora_name: 'tuned' } });
      expect((await routing.choose(tuned, NEVER)).worker).toBe(b);
      expect((await routing.choose(inSession(`r${at}`, at), NEVER)).worker).toBe(a);
    }
  });

  it('last as long as their client expects its prompts to be of use', async () => {
    const clock = new VirtualClock();
    const routing = router({ config, sessionAffinity: { ttlMs: 1000 } }, clock);
    const hinted = inSession('r0', 0);
    const first = await choose(routing, { ...hinted, routing: { ...hinted.routing, cache_ttl_ms: 60_000 } }, two);
    first.release();
    const pin = { routing: { backend_instance_id: first.worker.id } };
    await choose(routing, request('load', promptTokens(160_000, 7), pin), two);
    await clock.advance(59_000);
    expect((await choose(routing, inSession('r1', 1), two)).worker).toBe(first.worker);
  });

  it('are free again when idle for the whole time, not while a request runs', async () => {
    const clock = new VirtualClock();
    const routing = router({ config, sessionAffinity: { ttlMs: 1000 } }, clock);
    const first = await choose(routing, inSession('r0', 0), two);
    await clock.advance(5000);
    const second = await choose(routing, inSession('r1', 1), two);
    expect(second.worker).toBe(first.worker);
    await choose(
      routing,
      request('load', promptTokens(160_000, 7), { routing: { backend_instance_id: first.worker.id } }),
      two,
    );
    first.release();
    second.release();
    await clock.advance(1001);
    expect((await choose(routing, inSession('r2', 2), two)).worker).not.toBe(first.worker);
  });

  it('move when their worker is gone, has other ranks or failed the request', async () => {
    const routing = router({ config, sessionAffinity: { ttlMs: 1000 } });
    const before = await choose(routing, inSession('r', 3), [worker('a')]);
    const ranks = { dataParallelStartRank: 2, dataParallelSize: 2 };
    const after = await choose(routing, inSession('r again', 3), [worker('a', ranks)]);
    expect([before.dpRank, after.dpRank]).toEqual([0, expect.toBeOneOf([2, 3])]);
    after.release();
    const first = await choose(routing, inSession('r0', 0), two);
    const { id } = first.worker;
    const moved = await choose(routing, inSession('r1', 1, { excluded: new Set([id]) }), two);
    expect(moved.worker.id).not.toBe(id);
    const rest = two.filter((candidate) => candidate.id === id);
    routing.setWorkers(pool, rest);
    expect((await choose(routing, inSession('r2', 2), rest)).worker.id).toBe(id);
  });

  it('give way to an explicit worker', async () => {
    const routing = router({ config, sessionAffinity: { ttlMs: 1000 } });
    const first = await choose(routing, inSession('r0', 0), two);
    const other = two.find(({ id }) => id !== first.worker.id)!;
    const pinned = inSession('r1', 1, { routing: { session_id: 's', backend_instance_id: other.id } });
    expect((await choose(routing, pinned, two)).worker).toBe(other);
  });
});
