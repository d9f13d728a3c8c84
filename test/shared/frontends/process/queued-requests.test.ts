import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { QueuedRequests } from '../../../../shared/frontends/process/queued-requests.ts';
import type { Reservation, RoutableWorker, RouteRequest, WorkerPool } from '../../../../shared/router/index.ts';
import { KvRouter } from '../../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../../shared/scheduler/kv-config.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const pool: WorkerPool = { key: 'sum', model: 'm', role: 'aggregated', blockSizeTokens: 16 };
const only = { id: 'a', dataParallelStartRank: 0, dataParallelSize: 1, deviceType: undefined, taints: [] };

/** A router of one worker that takes one prompt at a time, and what is told of those that wait. */
function watched() {
  const clock = new VirtualClock(1_000_000);
  const told: (readonly [model: string, count: number, oldestAtMs: number])[] = [];
  const queued: QueuedRequests = new QueuedRequests({
    clock,
    onWaiting: (model, oldestAtMs) => told.push([model, queued.count(model), oldestAtMs]),
  });
  const inner = new KvRouter<RoutableWorker>({
    config: kvRouterConfig({ queueThreshold: 0 }),
    clock,
    random: seededRandom(3),
  });
  const router = queued.watch(inner);
  router.setWorkers(pool, [{ ...only, maxNumBatchedTokens: 1000 }]);
  const positions: number[] = [];
  const ask = (id: string, signal = new AbortController().signal): Promise<Reservation<RoutableWorker>> => {
    const onQueued = (position: number): undefined => {
      positions.push(position);
    };
    const tokenIds = Uint32Array.from({ length: 160 }, (_, at) => at + id.charCodeAt(0));
    const request: RouteRequest = {
      id,
      pool,
      routing: {},
      override: undefined,
      tokenIds,
      excluded: new Set(),
      onQueued,
    };
    return router.choose(request, signal);
  };
  return { clock, told, queued, inner, ask, positions };
}

describe('requests in the queue of the router', () => {
  it('are logged every five seconds while any waits, with the oldest of them', async () => {
    const { clock, told, queued, inner, ask, positions } = watched();
    const first = await ask('r1');
    expect(queued.count('m')).toBe(0);
    const [second, third] = [ask('r2'), ask('r3')];
    expect(queued.count('m')).toBe(2);
    expect(positions).toEqual([0, 1]);
    await clock.advance(10_000);
    expect(told).toEqual([
      ['m', 2, 1_000_000],
      ['m', 2, 1_000_000],
    ]);
    first.prefillDone();
    (await second).prefillDone();
    await third;
    expect(queued.count('m')).toBe(0);
    await clock.advance(20_000);
    expect(told).toHaveLength(2);
    inner.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it('count no more once they have given up or failed, and a short wait is not logged', async () => {
    const { clock, told, queued, inner, ask } = watched();
    const first = await ask('r1');
    const client = new AbortController();
    const [left, refused] = [ask('r2', client.signal), ask('r3')];
    await clock.advance(4000);
    client.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    expect(queued.count('m')).toBe(1);
    inner.close();
    await expect(refused).rejects.toThrow();
    expect(queued.count('m')).toBe(0);
    await clock.advance(20_000);
    expect(told).toEqual([]);
    first.release();
  });
});
