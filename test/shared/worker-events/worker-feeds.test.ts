import { describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import { Semaphore } from '../../../shared/concurrency/index.ts';
import type { KvEvent } from '../../../shared/engines/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import type { Worker } from '../../../shared/worker/worker.ts';
import {
  BusyWorkers,
  type EventSource,
  indexSink,
  type LoadReport,
  type PlacedWorker,
  RecoveryClient,
  WorkerFeeds,
  WorkerLoads,
} from '../../../shared/worker-events/index.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';
import { load, ScriptedEngine, workerBed } from '../worker/worker-bed.ts';
import { heldBy } from './scripted-rank.ts';

const SCOPE = { namespace: 'ns', component: 'backend' };

/** Workers and routers of one component, in memory and under a virtual clock. */
function fleetBed() {
  const engine = new ScriptedEngine();
  const bed = workerBed(engine);
  const requestPlane = createMemoryRequestPlane({ clock: bed.clock });
  const engines: ScriptedEngine[] = [];
  let isLossy = false;
  return {
    ...bed,
    /** Events that are published from now on do not arrive. */
    lose: (lossy: boolean): void => {
      isLossy = lossy;
    },
    async worker(instanceId: string, dataParallelSize = 1): Promise<{ worker: Worker; engine: ScriptedEngine }> {
      const own = new ScriptedEngine();
      own.info = { ...own.info, dataParallelSize };
      own.loads = Array.from({ length: dataParallelSize }, (_, dpRank) => ({ ...load(0, 0), dpRank }));
      engines.push(own);
      return { worker: await bed.start({ engine: own, requestPlane, instanceId }), engine: own };
    },
    /** @param source of the events. @default they are subscribed to */
    router(source?: EventSource) {
      const counts = { skipped: 0, applied: [] as string[], recovered: [] as string[] };
      const { logger, lines } = captureLogger();
      const ranks = new RankTable();
      const index: BlockIndex = new BlockIndex({ ranks });
      const loads = new WorkerLoads();
      const random = seededRandom(7);
      const feeds = new WorkerFeeds(
        {
          eventPlane: {
            ...bed.eventPlane,
            subscribe: (scope, topic, listener) =>
              bed.eventPlane.subscribe(scope, topic, {
                ...listener,
                event: (envelope) => {
                  if (!isLossy) listener.event(envelope);
                },
              }),
          },
          discovery: bed.discovery,
          recovery: new RecoveryClient({
            plane: requestPlane,
            clock: bed.clock,
            random,
            onSkip: () => counts.skipped++,
          }),
          slots: new Semaphore(16),
          clock: bed.clock,
          random,
          logger,
          observer: {
            stale() {},
            dropped() {},
            recovered: (kind, outcome) => counts.recovered.push(`${kind} ${outcome}`),
            skipped: () => counts.skipped++,
          },
          defer: async () => {},
          ...(source && { sourceOf: () => source }),
        },
        { loads, followsKvEvents: true },
      );
      const sink = indexSink(index, ranks, (kind, status) => counts.applied.push(`${kind} ${status}`));
      return {
        counts,
        feeds,
        lines,
        loads,
        set(...workers: readonly PlacedWorker[]): void {
          for (const { id, dataParallelSize } of workers) {
            for (let rank = 0; rank < dataParallelSize; rank++) ranks.intern(id, rank);
          }
          feeds.setWorkers('m', workers, sink);
        },
        blocks: (workerId: string, dpRank = 0): number[] => heldBy(index, ranks.intern(workerId, dpRank)),
      };
    },
  };
}

function placed(id: string, dataParallelSize = 1): PlacedWorker {
  return { id, dataParallelStartRank: 0, dataParallelSize, hasLocalIndexer: true, scope: SCOPE };
}

function stored(dpRank: number, ...blocks: readonly number[]): KvEvent {
  const pairs = (second: number): Uint32Array => Uint32Array.from(blocks.flatMap((block) => [block, second]));
  return { kind: 'stored', dpRank, parentHash: undefined, blockHashes: pairs(1), tokensHashes: pairs(2) };
}

describe('the feed of a fleet', () => {
  it('brings what each rank of each worker holds, from before and after the router came', async () => {
    const bed = fleetBed();
    const a = await bed.worker('a1', 2);
    const b = await bed.worker('b1');
    a.engine.emitKvEvents([stored(0, 1, 2), stored(1, 3)]);
    const router = bed.router();
    router.set(placed('a1', 2), placed('b1'));
    await bed.clock.advance(1000);
    b.engine.emitKvEvents([stored(0, 9)]);
    a.engine.emitKvEvents([{ kind: 'cleared', dpRank: 1 }, stored(1, 4)]);
    await bed.clock.advance(1);
    expect([router.blocks('a1', 0), router.blocks('a1', 1), router.blocks('b1')]).toEqual([[1, 2], [4], [9]]);
    expect(router.feeds.isSettled).toBe(true);
    expect(router.counts.applied).toContain('stored ok');
  });

  it('gives two routers the same picture, whenever they came and whatever one of them missed', async () => {
    const bed = fleetBed();
    const { engine } = await bed.worker('a1', 2);
    const first = bed.router();
    first.set(placed('a1', 2));
    await bed.clock.advance(200);
    for (let block = 1; block <= 30; block++) {
      bed.lose(block % 3 === 0);
      engine.emitKvEvents([stored(block % 2, block)]);
      await bed.clock.advance(1);
    }
    bed.lose(false);
    const second = bed.router();
    second.set(placed('a1', 2));
    await bed.clock.advance(3000);
    for (const rank of [0, 1]) {
      expect(first.blocks('a1', rank)).toHaveLength(15);
      expect(second.blocks('a1', rank)).toEqual(first.blocks('a1', rank));
    }
  });

  it('notices from the load report that the last event of a busy hour was lost', async () => {
    const bed = fleetBed();
    const { engine } = await bed.worker('a1');
    const router = bed.router();
    router.set(placed('a1'));
    await bed.clock.advance(2000);
    bed.lose(true);
    engine.emitKvEvents([stored(0, 5)]);
    await bed.clock.advance(1);
    bed.lose(false);
    expect(router.blocks('a1')).toEqual([]);
    await bed.clock.advance(1500);
    expect(router.blocks('a1')).toEqual([5]);
  });

  it('asks no worker while a source fills the index, however long that takes, and listens to reports afterwards', async () => {
    const bed = fleetBed();
    const { engine } = await bed.worker('a1');
    engine.emitKvEvents([stored(0, 5)]);
    let feed: Parameters<EventSource['start']>[0] | undefined;
    const router = bed.router({
      start: (started) => {
        feed = started;
      },
      stop: async () => {},
    });
    router.set(placed('a1'));
    await bed.clock.advance(5000);
    expect([router.counts.recovered, router.blocks('a1')]).toEqual([[], []]);
    feed?.resume([]); // the source knew nothing of the worker
    await bed.clock.advance(1500);
    expect([router.counts.recovered, router.blocks('a1')]).toEqual([['restore ok'], [5]]);
  });

  it('forgets nothing of others when a worker leaves, and hears it again when it comes back under its id', async () => {
    const bed = fleetBed();
    const { worker, engine } = await bed.worker('a1');
    const b = await bed.worker('b1');
    const router = bed.router();
    router.set(placed('a1'), placed('b1'));
    await bed.clock.advance(200);
    engine.emitKvEvents([stored(0, 1)]);
    b.engine.emitKvEvents([stored(0, 2)]);
    await bed.clock.advance(1);
    void worker.drain();
    await bed.clock.advance(2000);
    router.set(placed('b1'));
    const again = await bed.worker('a1');
    again.engine.emitKvEvents([stored(0, 7)]);
    router.set(placed('a1'), placed('b1'));
    await bed.clock.advance(2000);
    expect(router.blocks('a1')).toContain(7);
    expect(router.blocks('b1')).toEqual([2]);
  });

  it('follows a worker of several sets until the last of them does without it', async () => {
    const bed = fleetBed();
    const a = await bed.worker('a1');
    const router = bed.router();
    router.set(placed('a1'));
    router.feeds.setWorkers('adapter', [placed('a1')], undefined);
    router.feeds.setWorkers('adapter', [], undefined);
    await bed.clock.advance(1000);
    a.engine.emitKvEvents([stored(0, 1)]);
    await bed.clock.advance(1000);
    expect(router.blocks('a1')).toEqual([1]);
    expect(router.loads.of('a1', 0)).toBeDefined();
    await router.feeds.close();
  });

  it('wipes a rank whose endpoint moved, before its worker was removed', async () => {
    const bed = fleetBed();
    const { engine } = await bed.worker('a1');
    const router = bed.router();
    router.set(placed('a1'));
    await bed.clock.advance(200);
    engine.emitKvEvents([stored(0, 1)]);
    await bed.clock.advance(1);
    const address = { ...SCOPE, endpoint: 'worker_kv_indexer_query_dp0', instance_id: 'a1' };
    await bed.discovery.put({ type: 'Endpoint', ...address, transport: { memory: 'elsewhere' } });
    await bed.clock.advance(1);
    expect(router.blocks('a1')).toEqual([]);
  });

  it('counts and skips a message that is not an event, and names its publisher', async () => {
    const bed = fleetBed();
    const { engine } = await bed.worker('a1');
    const router = bed.router();
    router.set(placed('a1'));
    const publisher = await bed.eventPlane.publisher({ kind: 'component', ...SCOPE }, 'kv-events');
    const { publisherId, transport } = publisher;
    const scope = { kind: 'component', ...SCOPE } as const;
    await bed.discovery.put({ type: 'EventChannel', scope, topic: 'kv-events', instance_id: publisherId, transport });
    await bed.clock.advance(200);
    publisher.publish(['nonsense', { worker_id: '1', event: {} }]);
    publisher.publish(7);
    engine.emitKvEvents([stored(0, 1)]);
    await bed.clock.advance(1);
    expect(router.counts.skipped).toBe(3);
    const told = router.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields.publisher_id);
    expect(new Set(told)).toEqual(new Set([publisherId]));
    expect(router.blocks('a1')).toEqual([1]);
  });

  it('leaves nothing running when it is closed', async () => {
    const bed = fleetBed();
    await bed.worker('a1');
    const before = bed.clock.pendingTimers;
    const router = bed.router();
    router.set(placed('a1'));
    await bed.clock.advance(200);
    await router.feeds.close();
    expect(bed.clock.pendingTimers).toBe(before);
  });
});

describe('the loads of a fleet', () => {
  const worker = { id: 'a1', dataParallelStartRank: 0, dataParallelSize: 2, deviceType: undefined, taints: [] };
  const routable = { ...worker, totalKvBlocks: 1000, maxNumBatchedTokens: 100 };

  async function loadedBed() {
    const bed = fleetBed();
    const { engine } = await bed.worker('a1', 2);
    const router = bed.router();
    router.set(placed('a1', 2));
    const busy = new BusyWorkers(router.loads, bed.clock);
    const report = async (...ranks: readonly [number, number][]): Promise<void> => {
      engine.loads = ranks.map(([used, prefill], dpRank) => ({ ...load(used, prefill), dpRank }));
      await bed.clock.advance(1100);
    };
    await bed.clock.advance(200);
    return { ...bed, router, busy, report, workers: [routable] };
  }

  it('are what the workers report last', async () => {
    const bed = await loadedBed();
    await bed.report([870, 0], [3, 12_000]);
    expect(bed.router.loads.of('a1', 0)).toMatchObject({ usedKvBlocks: 870, activePrefillTokens: 0 });
    expect(bed.router.loads.of('a1', 1)).toMatchObject({ usedKvBlocks: 3, activePrefillTokens: 12_000 });
    expect(bed.router.loads.of('b1', 0)).toBeUndefined();
  });

  it.each([
    ['more blocks than the share', { decodeBlocksShare: 0.85 }, [870, 0], true],
    ['exactly the share', { decodeBlocksShare: 0.87 }, [870, 0], false],
    ['more tokens than the limit', { prefillTokens: 10_000 }, [0, 12_000], true],
    ['more tokens than its batches hold', { prefillTokensFraction: 64 }, [0, 6401], true],
    ['as many tokens as its batches hold', { prefillTokensFraction: 64 }, [0, 6400], false],
  ] as const)('make a worker busy whose every rank has %s', async (_, limits, rank, isBusy) => {
    const bed = await loadedBed();
    await bed.report([...rank], [...rank]);
    expect(bed.busy.of(bed.workers, limits)?.has('a1')).toBe(isBusy);
  });

  it('leave a worker free while one of its ranks is', async () => {
    const bed = await loadedBed();
    await bed.report([1000, 0], [0, 0]);
    expect(bed.busy.of(bed.workers, { decodeBlocksShare: 0.5 })?.size).toBe(0);
    expect(bed.busy.of(bed.workers, {})).toBeUndefined(); // nothing is limited
  });
});

describe('reports of ranks', () => {
  const worker = { id: 'a1', dataParallelStartRank: 2, dataParallelSize: 2 };
  const report = (dpRank: number): LoadReport => ({
    workerId: 'a1',
    dpRank,
    usedKvBlocks: 7,
    activePrefillTokens: undefined,
    activeDecodeBlocks: undefined,
    lastEventId: undefined,
    arrivedRequests: ['r1'],
    leftRequests: ['r0'],
  });

  it('are kept of those that the worker has, without the requests that they name', () => {
    const loads = new WorkerLoads();
    loads.set(report(2)); // nobody asked for it yet
    loads.expect(worker);
    for (const dpRank of [1, 2, 3, 4, 2 ** 40]) loads.set(report(dpRank));
    expect([1, 2, 3, 4, 2 ** 40].map((dpRank) => loads.of('a1', dpRank)?.usedKvBlocks)).toEqual([
      ...[undefined, 7, 7],
      ...[undefined, undefined],
    ]);
    expect(loads.of('a1', 2)).toMatchObject({ arrivedRequests: [], leftRequests: [] });
  });

  it('are forgotten with a rank that the worker no longer has', () => {
    const loads = new WorkerLoads();
    loads.expect(worker);
    loads.set(report(2));
    loads.set(report(3));
    loads.expect({ ...worker, dataParallelStartRank: 3 });
    expect([2, 3].map((dpRank) => loads.of('a1', dpRank)?.usedKvBlocks)).toEqual([undefined, 7]);
  });
});
