import { describe, expect, it } from 'vitest';
import { RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import { type ActiveSequenceEvent, replicaBookings } from '../../../shared/router-state/index.ts';
import { Scheduler } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function openScheduler() {
  const scheduler = new Scheduler({
    config: kvRouterConfig({}),
    blockSizeTokens: 16,
    ranks: new RankTable(),
    index: undefined,
    clock: new VirtualClock(),
    random: seededRandom(1),
  });
  const worker = { dataParallelStartRank: 0, dataParallelSize: 1, taints: [] };
  const unknown = { totalKvBlocks: undefined, maxNumBatchedTokens: undefined };
  scheduler.setWorkers([{ id: 'a1', ...worker, ...unknown }]);
  return scheduler;
}

const ADDED: ActiveSequenceEvent = {
  requestId: 'same',
  workerId: 'a1',
  dpRank: 0,
  routerId: '1',
  loraName: undefined,
  change: {
    kind: 'added',
    sequenceHashes: Uint32Array.of(1, 0, 2, 0),
    tracksPrefillTokens: true,
    expectedOutputTokens: undefined,
    prefillTokens: 40,
    expectedPrefillMs: undefined,
  },
};

describe('what other routers tell of', () => {
  it('is load until it ends, request by request and router by router', () => {
    const scheduler = openScheduler();
    const apply = replicaBookings(scheduler, 16);
    apply(ADDED);
    apply({ ...ADDED, routerId: '2' });
    expect(scheduler.bookedLoad('a1', 0)).toEqual({ requests: 2, decodeBlocks: 2, prefillTokens: 80 });
    apply({ ...ADDED, change: { kind: 'prefill_done' } });
    expect(scheduler.bookedLoad('a1', 0)).toMatchObject({ requests: 2, prefillTokens: 40 });
    apply({ ...ADDED, change: { kind: 'freed' } });
    apply({ ...ADDED, change: { kind: 'freed' } });
    apply({ ...ADDED, routerId: '2', change: { kind: 'freed' } });
    expect(scheduler.bookedLoad('a1', 0)).toEqual({ requests: 0, decodeBlocks: 0, prefillTokens: 0 });
  });

  it('is a place in the queue until it is booked or freed', () => {
    const scheduler = openScheduler();
    const heard: string[] = [];
    const apply = replicaBookings(
      {
        book: (booking) => scheduler.book(booking),
        free: (id) => scheduler.free(id),
        prefillDone: (id) => scheduler.prefillDone(id),
        heardWaiting: ({ id, requestId, promptTokens, uncachedTokens, waitedMs }) =>
          void heard.push(JSON.stringify({ id, requestId, promptTokens, uncachedTokens, waitedMs })),
      },
      16,
    );
    const wishes = { expectedOutputTokens: undefined, priorityJump: undefined, strictPriority: undefined };
    const facts = { sequenceHashes: Uint32Array.of(1, 0, 2, 0), uncachedTokens: 20, waitedMs: 3, ...wishes };
    apply({ ...ADDED, change: { kind: 'waits', ...facts } });
    expect(heard.map((text) => JSON.parse(text))).toEqual([
      { id: '1/same', requestId: 'same', promptTokens: 32, uncachedTokens: 20, waitedMs: 3 },
    ]);
    expect(scheduler.activeRequests).toBe(0);
  });

  it('counts beside bookings if no router reported it, and goes with the worker', () => {
    const scheduler = openScheduler();
    replicaBookings(scheduler, 16)(ADDED);
    scheduler.setUnattributedLoad('a1', 0, { requests: 3, decodeBlocks: 30, prefillTokens: 300 });
    const load = { activePrefillTokens: 340, activeDecodeBlocks: 32, activeRequests: 4 };
    expect(scheduler.loads()).toEqual([{ workerId: 'a1', dpRank: 0, ...load }]);
    expect(scheduler.bookedLoad('a1', 0)).toEqual({ requests: 1, decodeBlocks: 2, prefillTokens: 40 });
    scheduler.setUnattributedLoad('a1', 0, { requests: 1, decodeBlocks: 10, prefillTokens: 0 });
    expect(scheduler.loads()).toMatchObject([{ activePrefillTokens: 40, activeDecodeBlocks: 12, activeRequests: 2 }]);
    scheduler.setUnattributedLoad('unknown', 0, { requests: 1, decodeBlocks: 1, prefillTokens: 1 });
    scheduler.setWorkers([]);
    expect(scheduler.bookedLoad('a1', 0)).toBeUndefined();
    expect(scheduler.activeRequests).toBe(0);
  });
});
