import { describe, expect, it } from 'vitest';
import { BlockIndex } from '../../../../shared/block-index/index.ts';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { ModelCard } from '../../../../shared/discovery/index.ts';
import { type Worker, workerSetsOf } from '../../../../shared/pipeline/index.ts';
import { DryRun } from '../../../../shared/pipeline/run/dry-run.ts';
import { PrefillStage } from '../../../../shared/pipeline/run/prefill-stage.ts';
import { routedRequest } from '../../../../shared/pipeline/run/run-context.ts';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import type { WorkerPool } from '../../../../shared/router/index.ts';
import { Inhibition, KvRouter } from '../../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../../shared/scheduler/kv-config.ts';
import { hashBlocks } from '../../../../shared/tokens/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { HandPlane, letterModel, model, preprocessNow, request, worker } from '../fixtures.ts';

const TEXT = 'abcd'.repeat(12);

interface Setup {
  readonly prefills?: readonly Worker[];
  readonly isEnforced?: boolean;
}

/** A router of mode kv over `decodes`, and over prefill workers where there are any. */
function open({ prefills = [], isEnforced = false }: Setup = {}) {
  const clock = new VirtualClock();
  const plane = new HandPlane();
  const router = new KvRouter<Worker>({
    config: kvRouterConfig({ queueThreshold: 0 }),
    clock,
    random: seededRandom(1),
    indexFor: (_, ranks) => new BlockIndex({ ranks }),
  });
  const workers = [worker('a1'), worker('b2'), worker('c3')];
  const isSplit = prefills.length > 0;
  const pool: WorkerPool = { key: 'sum', role: isSplit ? 'decode' : 'aggregated', blockSizeTokens: 16 };
  const card = { ...model().card, needs: isSplit ? [['prefill']] : [] } as unknown as ModelCard;
  const served = model({
    card,
    pool,
    workers,
    ...(isSplit && { prefill: { pool: { ...pool, role: 'prefill' as const }, workers: prefills } }),
  });
  for (const set of workerSetsOf(served)) router.setWorkers(set.pool, set.workers);
  const shared = {
    router,
    plane,
    clock,
    observer: { stage() {}, template() {}, tokenize() {}, tokenizerCache() {}, migrated() {}, migrationTooLong() {} },
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
  const prefill = new PrefillStage({ ...shared, random, isEnforced, bypasses: undefined, modelNow: () => served });
  const dryRun = new DryRun({ ...shared, prefill }, async (route) => router.explain(route));
  const run = (asked: Partial<GenerationRequest> = {}) => {
    const asking = request({ prompt: { kind: 'raw', text: TEXT }, ...asked });
    const ready = preprocessNow(asking, served, letterModel).request;
    return dryRun.run(ready, routedRequest(asking, served, new AbortController().signal));
  };
  const store = (role: WorkerPool['role'], id: string): void => {
    const { index, ranks } = router.find({ ...pool, role })!;
    const tokens = Uint32Array.from(letterModel.tokenizer.encode(TEXT));
    const { local, sequence } = hashBlocks(tokens, { blockSizeTokens: 16 });
    (index as BlockIndex).stored(ranks.find(id, 0)!, 'device', undefined, sequence, local);
  };
  return { run, store, plane, router, pool };
}

describe('a routing dry run', () => {
  it('names the worker that holds the prompt, for both stages', async () => {
    const { run, store } = open();
    store('aggregated', 'b2');
    expect(await run()).toEqual({
      prefillWorkerId: 'b2',
      prefillDpRank: 0,
      decodeWorkerId: 'b2',
      decodeDpRank: 0,
    });
  });

  it('sends nothing, books nothing and never waits', async () => {
    const { run, plane, router, pool } = open();
    for (let count = 0; count < 20; count++) await run();
    expect(plane.calls).toEqual([]);
    const loads = router.find(pool)!.scheduler.loads();
    expect(loads.map(({ activeRequests, activePrefillTokens }) => activeRequests + activePrefillTokens)).toEqual([
      0, 0, 0,
    ]);
  });

  it('names a worker of each pool where prompts are computed apart', async () => {
    const { run, store } = open({ prefills: [worker('f1'), worker('f2')] });
    store('prefill', 'f2');
    expect(await run({ routing: { decode_worker_id: 'c3' } })).toMatchObject({
      prefillWorkerId: 'f2',
      decodeWorkerId: 'c3',
    });
  });

  it('fails as the request itself would', async () => {
    const { run } = open();
    await expect(run({ routing: { backend_instance_id: 'ff' } })).rejects.toMatchObject({
      code: 'invalid_value',
      param: 'nvext.backend_instance_id',
    });
    const constraints = { required_taints: ['moon'] };
    await expect(run({ routing: { routing_constraints: constraints } })).rejects.toMatchObject({ status: 503 });
    const split = open({ prefills: [worker('f1')], isEnforced: true });
    await expect(split.run({ routing: { prefill_worker_id: 'ee' } })).rejects.toMatchObject({
      param: 'nvext.prefill_worker_id',
    });
  });
});
