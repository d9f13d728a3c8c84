import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { RoutingHints } from '../../../shared/protocol/index.ts';
import type { RoutableWorker, RouteRequest, SimpleRouterMode, WorkerPool } from '../../../shared/router/index.ts';
import { Inhibition, SimpleRouter } from '../../../shared/scheduler/index.ts';
import { choose } from '../../support/router/choose.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const pool: WorkerPool = { key: 'm', role: 'aggregated', blockSizeTokens: 16 };

function worker(id: string, more: Partial<RoutableWorker> = {}): RoutableWorker {
  return { id, dataParallelStartRank: 0, dataParallelSize: 1, deviceType: undefined, taints: [], ...more };
}

function request(routing: RoutingHints = {}, excluded: readonly string[] = []): RouteRequest {
  return { id: 'r', pool, routing, override: undefined, tokenIds: undefined, excluded: new Set(excluded) };
}

function router(mode: SimpleRouterMode, inhibition = new Inhibition(new VirtualClock(), 5000), seed = 7) {
  return new SimpleRouter<RoutableWorker>({ mode, random: seededRandom(seed), inhibition });
}

const three = [worker('a'), worker('b'), worker('c')];

async function picks(mode: SimpleRouterMode, count: number, workers = three): Promise<string[]> {
  const routing = router(mode);
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    const held = await choose(routing, request(), workers);
    ids.push(held.worker.id);
    held.release();
  }
  return ids;
}

describe('round-robin', () => {
  it('takes the workers in turn', async () => {
    expect(await picks('round-robin', 7)).toEqual(['a', 'b', 'c', 'a', 'b', 'c', 'a']);
  });
});

describe('random', () => {
  it('reaches every worker about equally often', async () => {
    const ids = await picks('random', 3000);
    for (const { id } of three) expect(ids.filter((picked) => picked === id).length).toBeGreaterThan(850);
  });
});

describe('least-loaded', () => {
  it('never lets two workers differ by more than one request while none ends', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 60 }),
        fc.integer(),
        async (size, count, seed) => {
          const workers = Array.from({ length: size }, (_, index) => worker(`w${index}`));
          const routing = router('least-loaded', undefined, seed);
          const load = new Map<string, number>(workers.map(({ id }) => [id, 0]));
          for (let index = 0; index < count; index++) {
            const { worker: chosen } = await choose(routing, request(), workers);
            load.set(chosen.id, (load.get(chosen.id) ?? 0) + 1);
          }
          expect(Math.max(...load.values()) - Math.min(...load.values())).toBeLessThanOrEqual(1);
        },
      ),
    );
  });

  it('sends the next request to the worker whose request ended', async () => {
    const routing = router('least-loaded');
    const held = await Promise.all([0, 1, 2].map(() => choose(routing, request(), three)));
    held[1]?.release();
    held[1]?.release(); // a second release counts nothing
    expect((await choose(routing, request(), three)).worker.id).toBe(held[1]?.worker.id);
  });
});

describe('power-of-two', () => {
  it('takes the only worker there is', async () => {
    expect(await picks('power-of-two', 3, [worker('only')])).toEqual(['only', 'only', 'only']);
  });

  it('never takes the busiest of two', async () => {
    const two = [worker('a'), worker('b')];
    const routing = router('power-of-two');
    const first = await choose(routing, request(), two);
    for (let index = 0; index < 20; index++) {
      const held = await choose(routing, request(), two);
      expect(held.worker.id).not.toBe(first.worker.id);
      held.release();
    }
  });
});

describe('device-aware-weighted', () => {
  const cpus = ['c1', 'c2'].map((id) => worker(id, { deviceType: 'cpu' }));
  const gpus = ['g1', 'g2', 'g3', 'g4'].map((id) => worker(id, { deviceType: 'cuda' }));

  it('gives CPUs their share of what the accelerators have: 4 of 64 requests for 2 and 4 workers at 8 to 1', async () => {
    const routing = router('device-aware-weighted');
    for (let index = 0; index < 64; index++) await choose(routing, request(), gpus);
    const groups: string[] = [];
    for (let index = 0; index < 6; index++) {
      const { worker: chosen } = await choose(routing, request(), [...cpus, ...gpus]);
      groups.push(chosen.id.charAt(0));
    }
    expect(groups.join('')).toBe('ccccgg');
  });

  it('sends the first request to an accelerator, and any to the only group there is', async () => {
    const routing = router('device-aware-weighted');
    expect((await choose(routing, request(), [...cpus, worker('unknown')])).worker.id).toBe('unknown');
    expect((await choose(routing, request(), cpus)).worker.deviceType).toBe('cpu');
  });
});

describe('direct', () => {
  it('refuses a request that names no worker and says which header names one', async () => {
    await expect(choose(router('direct'), request(), three)).rejects.toMatchObject({
      code: 'invalid_value',
      message: expect.stringContaining('x-dynamo-worker-instance-id'),
    });
  });

  it('takes the worker that the request names', async () => {
    const held = await choose(router('direct'), request({ backend_instance_id: 'c' }), three);
    expect(held.worker.id).toBe('c');
  });
});

describe('filters', () => {
  it('fails with service_unavailable when no worker is left', async () => {
    await expect(choose(router('random'), request(), [])).rejects.toMatchObject({ code: 'service_unavailable' });
    await expect(choose(router('random'), request({}, ['a', 'b', 'c']), three)).rejects.toMatchObject({
      code: 'service_unavailable',
    });
  });

  it('keeps to allowed ids, ranks and required taints', async () => {
    const workers = [
      worker('a', { taints: ['eu'] }),
      worker('b', { taints: ['eu', 'h200'], dataParallelSize: 2 }),
      worker('c'),
    ];
    const cases: [RoutingHints, string][] = [
      [{ allowed_worker_ids: ['c'] }, 'c'],
      [{ dp_rank: 1 }, 'b'],
      [{ routing_constraints: { required_taints: ['eu', 'h200'] } }, 'b'],
    ];
    for (const [routing, expected] of cases) {
      expect((await choose(router('random'), request(routing), workers)).worker.id).toBe(expected);
    }
    await expect(
      choose(router('random'), request({ routing_constraints: { required_taints: ['mars'] } }), workers),
    ).rejects.toMatchObject({ code: 'service_unavailable' });
  });

  it('passes over busy workers; when only such are left, that is an overload', async () => {
    const busy = (...ids: string[]): RouteRequest => ({ ...request(), busy: new Set(ids) });
    for (let index = 0; index < 4; index++) {
      expect((await choose(router('random'), busy('a', 'c'), three)).worker.id).toBe('b');
    }
    const full = { code: 'server_overloaded', retryAfterMs: 1000 };
    await expect(choose(router('random'), busy('a', 'b', 'c'), three)).rejects.toMatchObject(full);
    const pinned = { ...busy('a'), routing: { backend_instance_id: 'a' } };
    await expect(choose(router('round-robin'), pinned, three)).rejects.toMatchObject(full);
  });

  it('passes over a worker that failed for five seconds, and not when no other is left', async () => {
    const clock = new VirtualClock();
    const inhibition = new Inhibition(clock, 5000);
    const routing = router('round-robin', inhibition);
    const two = [worker('a'), worker('b')];
    inhibition.add('a');
    for (let index = 0; index < 4; index++) expect((await choose(routing, request(), two)).worker.id).toBe('b');
    inhibition.add('b');
    expect(['a', 'b']).toContain((await choose(routing, request(), two)).worker.id);
    await clock.advance(5001);
    const ids = [await choose(routing, request(), two), await choose(routing, request(), two)];
    expect(new Set(ids.map((held) => held.worker.id))).toEqual(new Set(['a', 'b']));
  });

  it('takes a worker back at once when discovery announces it anew', async () => {
    const inhibition = new Inhibition(new VirtualClock(), 5000);
    const routing = router('round-robin', inhibition);
    inhibition.add('a');
    inhibition.forget('a');
    const held = [
      await choose(routing, request(), three),
      await choose(routing, request(), three),
      await choose(routing, request(), three),
    ];
    expect(held.map(({ worker: { id } }) => id)).toContain('a');
  });

  it('does nothing for a request that was cancelled already', async () => {
    const gone = AbortSignal.abort(new Error('gone'));
    await expect(choose(router('random'), request(), three, gone)).rejects.toThrow('gone');
  });
});
