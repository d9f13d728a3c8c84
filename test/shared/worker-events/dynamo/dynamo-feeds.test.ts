import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../../shared/block-index/index.ts';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { Semaphore } from '../../../../shared/concurrency/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import {
  indexSink,
  type PlacedWorker,
  RecoveryClient,
  WorkerFeeds,
  WorkerLoads,
} from '../../../../shared/worker-events/index.ts';
import { createMemoryEventPlane } from '../../../support/memory-event-plane.ts';
import { createMemoryRequestPlane } from '../../../support/memory-request-plane.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { heldBy } from '../scripted-rank.ts';
import { DYNAMO_SCOPE, ScriptedPublisher } from './scripted-publisher.ts';

const WORKER = 'bfa8c2c963503f05'; // above 2^53, as Dynamo's ids are

/** A router and workers of Dynamo, in memory and under a virtual clock. */
async function dynamoBed() {
  const clock = new VirtualClock();
  const random = seededRandom(3);
  const hub = new MemoryHub(clock);
  const eventPlane = createMemoryEventPlane({ clock, random });
  const plane = createMemoryRequestPlane({ clock });
  const workers = new MemoryDiscovery({ hub, clock, random });
  const server = await plane.serve({ instanceId: WORKER });
  let isLossy = false;
  const counts = { skipped: 0, recovered: [] as string[] };
  const ranks = new RankTable();
  const index: BlockIndex = new BlockIndex({ ranks });
  const loads = new WorkerLoads();
  const { logger, lines } = captureLogger();
  const onSkip = (): void => {
    counts.skipped++;
  };
  const feeds = new WorkerFeeds(
    {
      eventPlane: {
        ...eventPlane,
        subscribe: (scope, topic, listener) =>
          eventPlane.subscribe(scope, topic, {
            ...listener,
            event: (envelope) => {
              if (!isLossy) listener.event(envelope);
            },
          }),
      },
      discovery: new MemoryDiscovery({ hub, clock, random }),
      recovery: new RecoveryClient({ plane, clock, random, onSkip, defer: async () => {} }),
      slots: new Semaphore(16),
      ...{ clock, random, logger },
      observer: {
        stale() {},
        dropped() {},
        recovered: (kind, outcome) => counts.recovered.push(`${kind} ${outcome}`),
        skipped: onSkip,
      },
      defer: async () => {},
    },
    { loads, followsKvEvents: true },
  );
  const sink = indexSink(index, ranks, () => {});
  return {
    ...{ clock, counts, eventPlane, feeds, lines, loads, server, workers },
    /** Loses the events that are published from now on, or delivers them. */
    lose: (lossy: boolean): void => {
      isLossy = lossy;
    },
    publisher: (workerId: string, dpRank = 0, isLate = false) =>
      ScriptedPublisher.start({ workerId, dpRank, isLate, eventPlane, server, discovery: workers }),
    follow(...placed: readonly PlacedWorker[]): void {
      for (const { id, dataParallelSize } of placed) {
        for (let rank = 0; rank < dataParallelSize; rank++) ranks.intern(id, rank);
      }
      feeds.setWorkers('m', placed, sink);
    },
    blocks: (workerId: string, dpRank = 0): number[] => heldBy(index, ranks.intern(workerId, dpRank)),
  };
}

function placed(id: string, dataParallelSize = 1): PlacedWorker {
  return { id, dataParallelStartRank: 0, dataParallelSize, hasLocalIndexer: true, scope: DYNAMO_SCOPE };
}

describe('the blocks of workers of Dynamo', () => {
  it('are known from before and after the router came, for each rank', async () => {
    const bed = await dynamoBed();
    const [zero, one] = [await bed.publisher(WORKER, 0), await bed.publisher(WORKER, 1)];
    zero.stored(undefined, 1, 2);
    one.stored(undefined, 5);
    bed.follow(placed(WORKER, 2));
    await bed.clock.advance(1000);
    zero.stored(2, 3);
    zero.removed(3);
    one.cleared();
    one.stored(undefined, 6);
    await bed.clock.advance(1);
    expect([bed.blocks(WORKER, 0), bed.blocks(WORKER, 1)]).toEqual([[1, 2], [6]]);
    expect(bed.feeds.isSettled).toBe(true);
  });

  it('are asked for from the first missing event, at the publisher that lost some, and nowhere else', async () => {
    const bed = await dynamoBed();
    const [zero, one] = [await bed.publisher(WORKER, 0), await bed.publisher(WORKER, 1)];
    bed.follow(placed(WORKER, 2));
    zero.stored(undefined, 1);
    await bed.clock.advance(5000);
    const before = [zero.queries.length, one.queries.length];
    bed.lose(true);
    zero.stored(1, 2);
    await bed.clock.advance(1);
    bed.lose(false);
    zero.stored(2, 3);
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER, 0)).toEqual([1, 2, 3]);
    expect(zero.queries.slice(before[0])).toEqual([2]);
    expect(one.queries).toHaveLength(before[1]!);
  });

  it('are read anew if more is missing than the publisher keeps', async () => {
    const bed = await dynamoBed();
    const publisher = await bed.publisher(WORKER);
    bed.follow(placed(WORKER));
    publisher.stored(undefined, 1, 2);
    await bed.clock.advance(1000);
    bed.lose(true);
    publisher.removed(2);
    for (let block = 10; block < 30; block++) publisher.stored(undefined, block);
    await bed.clock.advance(1);
    bed.lose(false);
    publisher.stored(undefined, 40);
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual(publisher.blocks);
  });

  it('are those of the newest publisher when another process takes over the id of the worker', async () => {
    const bed = await dynamoBed();
    const first = await bed.publisher(WORKER);
    first.stored(undefined, 1, 2);
    bed.follow(placed(WORKER));
    await bed.clock.advance(1000);
    const second = await bed.publisher(WORKER);
    second.stored(undefined, 7);
    await bed.clock.advance(1000);
    first.stored(undefined, 3); // too late
    second.stored(7, 8);
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual([7, 8]);
    await first.withdraw();
    second.stored(8, 9);
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual([7, 8, 9]);
  });

  it('lack nothing of a publisher whose events came before its record, not even what came with its answer', async () => {
    const bed = await dynamoBed();
    const first = await bed.publisher(WORKER);
    first.stored(undefined, 1);
    bed.follow(placed(WORKER));
    await bed.clock.advance(1000);
    const second = await bed.publisher(WORKER, 0, true);
    second.stored(undefined, 7);
    await bed.clock.advance(1);
    second.onAnswer = () => {
      second.onAnswer = undefined;
      second.stored(7, 8);
    };
    await second.announce();
    await bed.clock.advance(10_000);
    expect(bed.blocks(WORKER)).toEqual([7, 8]);
  });

  it('are those of the publisher that stays when the newest leaves', async () => {
    const bed = await dynamoBed();
    const first = await bed.publisher(WORKER);
    first.stored(undefined, 1);
    const second = await bed.publisher(WORKER);
    second.stored(undefined, 7);
    bed.follow(placed(WORKER));
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual([7]);
    await second.withdraw();
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual([1]);
  });

  it('stay apart from those of a worker with the same id at another endpoint', async () => {
    const bed = await dynamoBed();
    const publisher = await bed.publisher(WORKER);
    publisher.stored(undefined, 1);
    bed.follow({ ...placed(WORKER), scope: { namespace: 'dynamo', component: 'backend' } });
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual([]);
  });

  it('equal those of the worker after any loss, as soon as an event arrives again', async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('stored' as const), parent: fc.nat(12), block: fc.nat(12) }),
      fc.record({ kind: fc.constant('removed' as const), block: fc.nat(12) }),
      fc.record({ kind: fc.constantFrom('cleared' as const, 'lose' as const, 'hear' as const, 'replace' as const) }),
      fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1, 50, 400) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const bed = await dynamoBed();
        let publisher = await bed.publisher(WORKER);
        bed.follow(placed(WORKER));
        for (const each of steps) {
          const { blocks } = publisher;
          if (each.kind === 'stored' && !blocks.includes(each.block)) {
            publisher.stored(blocks.includes(each.parent) ? each.parent : undefined, each.block);
          } else if (each.kind === 'removed' && publisher.isLeaf(each.block)) publisher.removed(each.block);
          else if (each.kind === 'cleared') publisher.cleared();
          else if (each.kind === 'lose' || each.kind === 'hear') bed.lose(each.kind === 'lose');
          else if (each.kind === 'wait') await bed.clock.advance(each.ms);
          else if (each.kind === 'replace') {
            await publisher.withdraw();
            publisher = await bed.publisher(WORKER);
          }
        }
        await bed.clock.advance(1);
        bed.lose(false);
        publisher.stored(undefined, 100);
        await bed.clock.advance(60_000);
        expect(bed.blocks(WORKER)).toEqual(publisher.blocks);
        await bed.feeds.close();
      }),
      { numRuns: 60 },
    );
  });
});

it('knows the load of workers of Dynamo by their own reports, not by those of routers', async () => {
  const bed = await dynamoBed();
  await bed.publisher(WORKER);
  bed.follow(placed(WORKER));
  const scope = { kind: 'endpoint', ...DYNAMO_SCOPE } as const;
  const publisher = await bed.eventPlane.publisher(scope, 'kv_metrics');
  const { publisherId: instance_id, transport } = publisher;
  await bed.workers.put({ type: 'EventChannel', scope, topic: 'kv_metrics', instance_id, transport, wire: 'dynamo' });
  await bed.clock.advance(1000);
  const worker_id = BigInt(`0x${WORKER}`);
  const none = { active_decode_blocks: null, active_prefill_tokens: null, kv_used_blocks: null };
  publisher.publish({ worker_id, dp_rank: 0, ...none, kv_used_blocks: 7 });
  publisher.publish({ worker_id, dp_rank: 0, ...none, active_decode_blocks: 90, active_prefill_tokens: 5000 });
  await bed.clock.advance(1);
  expect(bed.loads.of(WORKER, 0)).toMatchObject({ usedKvBlocks: 7, activePrefillTokens: undefined });
});

describe('what a publisher of Dynamo must not do', () => {
  it('is counted, and costs no other worker its blocks', async () => {
    const bed = await dynamoBed();
    const publisher = await bed.publisher(WORKER);
    bed.follow(placed(WORKER));
    await bed.clock.advance(1000);
    publisher.publishRaw([{ worker_id: 1.5, event: { event_id: 1, data: 'cleared' } }]);
    publisher.publishRaw({ worker_id: 7n, event: { event_id: 2n ** 60n, data: 'cleared' } });
    publisher.publishRaw([null, 7, 'cleared']);
    publisher.stored(undefined, 1);
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual([1]);
    expect(bed.counts.skipped).toBe(5);
  });

  it.each([
    ['nothing', []],
    ['text', ['TreeDump']],
    ['an answer of an unknown kind', [{ Later: {} }]],
    ['a dump whose events are no list', [{ TreeDump: { events: 7, last_event_id: 1 } }]],
    ['a dump without its last event', [{ TreeDump: { events: [] } }]],
    ['a refusal', [{ Error: 'not now' }]],
  ])('leaves the blocks of its worker unknown if it answers %s', async (_, items) => {
    const bed = await dynamoBed();
    const publisher = await bed.publisher(WORKER);
    publisher.stored(undefined, 1);
    publisher.answers = items;
    bed.follow(placed(WORKER));
    await bed.clock.advance(120_000);
    expect(bed.blocks(WORKER)).toEqual([]);
    expect(bed.counts.recovered).toEqual(['restore failed']);
    expect(bed.lines.map(({ message }) => message)).toContain('cached blocks of a worker could not be recovered');
    publisher.answers = undefined;
    publisher.stored(1, 2);
    await bed.clock.advance(1000);
    expect(bed.blocks(WORKER)).toEqual([1, 2]);
  });
});
