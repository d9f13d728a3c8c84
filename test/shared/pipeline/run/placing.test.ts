import { describe, expect, it } from 'vitest';
import { BlockIndex } from '../../../../shared/block-index/index.ts';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { ModelCard } from '../../../../shared/discovery/index.ts';
import { type Worker, workerSetsOf } from '../../../../shared/pipeline/index.ts';
import { Placing } from '../../../../shared/pipeline/run/placing.ts';
import { PrefillStage } from '../../../../shared/pipeline/run/prefill-stage.ts';
import { routedRequest } from '../../../../shared/pipeline/run/run-context.ts';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import { Inhibition, KvRouter } from '../../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../../shared/scheduler/kv-config.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { HandPlane, letterModel, model, preprocessNow, request, worker } from '../fixtures.ts';

const TEXT = 'abcd'.repeat(12);

/** A router of mode kv over three workers, and over prefill workers where there are any. */
function open(prefills: readonly Worker[] = []) {
  const clock = new VirtualClock();
  const plane = new HandPlane();
  const router = new KvRouter<Worker>({
    config: kvRouterConfig({ queueThreshold: 0 }),
    clock,
    random: seededRandom(1),
    indexFor: (_, ranks) => new BlockIndex({ ranks }),
  });
  const isSplit = prefills.length > 0;
  const pool = { key: 'sum', role: isSplit ? ('decode' as const) : ('aggregated' as const), blockSizeTokens: 16 };
  const card = { ...model().card, needs: isSplit ? [['prefill']] : [] } as unknown as ModelCard;
  const served = model({
    card,
    pool,
    workers: [worker('a1'), worker('b2'), worker('c3')],
    ...(isSplit && { prefill: { pool: { ...pool, role: 'prefill' as const }, workers: prefills } }),
  });
  for (const set of workerSetsOf(served)) router.setWorkers(set.pool, set.workers);
  const shared = {
    router,
    plane,
    clock,
    observer: {},
    streamWatch: undefined,
    stalledWorkers: { size: 0, has: () => false },
    failedWorkers: new Inhibition(clock, 5000),
    fullWorkers: new Inhibition(clock, 1000),
    busyOf: () => undefined,
    migrationLimit: 0,
    migrationTokensMax: undefined,
    hold: undefined,
    poolOf: () => served,
  };
  const random = seededRandom(2);
  const prefill = new PrefillStage({
    ...shared,
    random,
    isEnforced: false,
    bypasses: undefined,
    modelNow: () => served,
  });
  const placing = new Placing({ ...shared, prefill });
  let asked = 0;
  const place = (admits: (worker: Worker) => boolean = () => true, more: Partial<GenerationRequest> = {}) => {
    const asking = request({ id: `r${asked++}`, prompt: { kind: 'raw', text: TEXT }, ...more });
    const ready = preprocessNow(asking, served, letterModel).request;
    return placing.run(ready, routedRequest(asking, served, new AbortController().signal), admits);
  };
  const requests = () =>
    router.pools.flatMap(({ pool: { role }, scheduler }) =>
      scheduler.loads().flatMap(({ workerId, activeRequests }) => (activeRequests > 0 ? [[role, workerId]] : [])),
    );
  return { place, requests, plane };
}

describe('placing a request that another process sends', () => {
  it('reserves a worker until it is released, and sends nothing', async () => {
    const { place, requests, plane } = open();
    const placed = await place();
    expect(requests()).toEqual([['aggregated', placed.decode.worker.id]]);
    placed.begun();
    expect(requests()).toHaveLength(1);
    placed.release();
    placed.release();
    expect(requests()).toEqual([]);
    expect(plane.calls).toEqual([]);
  });

  it('takes only workers that are admitted, and names the others that are', async () => {
    const { place } = open();
    const placed = await place(({ id }) => id !== 'a1');
    expect([placed.decode.worker.id, ...placed.others.map(({ id }) => id)].sort()).toEqual(['b2', 'c3']);
    await expect(place(() => false)).rejects.toMatchObject({ code: 'service_unavailable' });
  });

  it('reserves a prefill worker until the answer has begun', async () => {
    const { place, requests } = open([worker('e5')]);
    const placed = await place();
    expect(placed.prefill?.worker.id).toBe('e5');
    expect(requests()).toEqual(
      expect.arrayContaining([
        ['decode', placed.decode.worker.id],
        ['prefill', 'e5'],
      ]),
    );
    placed.begun();
    expect(requests()).toEqual([['decode', placed.decode.worker.id]]);
    placed.release();
    expect(requests()).toEqual([]);
  });

  it('gives the prefill worker back if no worker can answer', async () => {
    const { place, requests } = open([worker('e5')]);
    await expect(place(() => false)).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(requests()).toEqual([]);
  });
});
