import { expect, it } from 'vitest';
import { RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import type { EventListener, EventPlane } from '../../../shared/planes/index.ts';
import { encodeActiveSequence } from '../../../shared/router-state/replica-sync.ts';
import { Replicas } from '../../../shared/routing/replicas.ts';
import { Scheduler } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { model, worker } from '../pipeline/fixtures.ts';

const ROUTERS_MAX = 4096;
const SCOPE = { namespace: 'ns', component: 'backend', endpoint: 'generate' };

/** Returns the message of a router that has placed one request at worker a1. */
function bookingOf(routerId: string): unknown {
  return encodeActiveSequence({
    requestId: 'r',
    workerId: 'a1',
    dpRank: 0,
    routerId,
    loraName: undefined,
    change: {
      kind: 'added',
      sequenceHashes: undefined,
      tracksPrefillTokens: false,
      expectedOutputTokens: undefined,
      prefillTokens: undefined,
      expectedPrefillMs: undefined,
    },
  });
}

it('the bookings of the router that was silent for longest are freed if too many routers have been heard', async () => {
  const clock = new VirtualClock();
  const ranks = new RankTable();
  const random = seededRandom(1);
  const config = kvRouterConfig({});
  const scheduler = new Scheduler({ config, blockSizeTokens: 16, ranks, index: undefined, clock, random });
  const unknown = { totalKvBlocks: undefined, maxNumBatchedTokens: undefined };
  scheduler.setWorkers([{ id: 'a1', dataParallelStartRank: 0, dataParallelSize: 1, taints: [], ...unknown }]);
  ranks.intern('a1', 0);
  const served = model({ workers: [{ ...worker('a1'), scope: SCOPE }] });
  let heard: (listener: EventListener) => void = () => {};
  const listening = new Promise<EventListener>((resolve) => {
    heard = resolve;
  });
  const transport = { kind: 'ZmqBroker', config: { xsub_endpoints: [], xpub_endpoints: [] } } as const;
  const close = async (): Promise<void> => {};
  const eventPlane: EventPlane = {
    name: 'zmq',
    publisher: async () => ({ publisherId: 'ff', transport, publish() {}, dropped: 0, close }),
    subscribe: async (_scope, _topic, listener) => {
      heard(listener);
      return { connect() {}, disconnect() {}, close };
    },
    close,
  };
  const replicas = new Replicas({
    clock,
    discovery: new MemoryDiscovery({ hub: new MemoryHub() }),
    logger: silentLogger,
    routerId: 'ffffffff',
    onPeers: () => {},
    eventPlane,
    watch: undefined,
    routerMetrics: { peerBookingUnremembered() {}, unattributedRequests() {} },
    pools: () => [{ pool: served.pool, workers: served.workers, ranks, index: undefined, scheduler, rearm() {} }],
  });
  replicas.follow([served]);
  const { event } = await listening;
  const bookings = (): number | undefined => scheduler.bookedLoad('a1', 0)?.requests;
  for (let at = 1; at <= ROUTERS_MAX + 2; at++) {
    const publisherId = (0x10000 + at).toString(16);
    event({ topic: 't', publisherId, sequence: 0, publishedAtMs: 0, payload: bookingOf(at.toString(16)) });
    if (at === ROUTERS_MAX) expect(bookings()).toBe(ROUTERS_MAX);
  }
  expect(bookings()).toBe(ROUTERS_MAX);
  await replicas.close();
});
