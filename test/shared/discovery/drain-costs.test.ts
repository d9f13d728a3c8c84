import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { LeaseWriter, toOwned } from '../../../shared/discovery/dynamodb/lease-writer.ts';
import { TableTime } from '../../../shared/discovery/index.ts';
import { endpointAt } from '../../contract/discovery/records.ts';
import { FleetBed } from './fleet-bed.ts';

const NEVER = new AbortController().signal;
const TTL_MS = 600_000;

/** A fleet whose workers renew their leases when the test says so. */
async function fleetOf(count: number) {
  const bed = new FleetBed();
  const random = seededRandom(3);
  const orders: string[] = [];
  const connection = bed.table.connect();
  const time = new TableTime(bed.clock);
  const writers: LeaseWriter[] = [];
  for (let at = 0; at < count; at++) {
    const leaseId = random.instanceId();
    const onOrder = (): void => void orders.push(leaseId);
    const own = { table: connection.table, time, clock: bed.clock, ttlMs: TTL_MS, load: () => new Uint8Array(100) };
    const writer = new LeaseWriter({ ...own, leaseId, onOrder });
    writers.push(writer);
    await writer.ensureLease(NEVER);
    const host = { instance_id: `i-${at}` };
    await writer.writeRecord(toOwned({ ...endpointAt(`ns/backend/generate/${leaseId}`), host }), NEVER);
    await writer.tellChange(NEVER);
  }
  const take = ({ counts }: typeof connection) => {
    const taken = { ...counts };
    Object.assign(counts, { reads: 0, writes: 0 });
    return taken;
  };
  const renewAll = async () => {
    take(connection);
    for (const writer of writers) await writer.renew(NEVER);
    return take(connection);
  };
  return { bed, orders, renewAll, take };
}

describe('the cost of orders to drain', () => {
  it.each([10, 1000, 10_000])(
    'is one write for each of five workers of %d, and no read by any worker',
    async (count) => {
      const { bed, orders, renewAll, take } = await fleetOf(count);
      const gatherer = await bed.follow({ ttlMs: TTL_MS });
      await bed.pass(3000);
      expect(gatherer.witness.present.size).toBe(count);
      expect(await renewAll()).toEqual({ reads: 0, writes: count });

      const planner = bed.open({ isLasting: false });
      take(planner.client);
      const ids = Array.from({ length: 5 }, (_, at) => `i-${at}`);
      const ordered = await planner.discovery.orderDrain(ids, { reason: 'scale-in', deadlineMs: 1e12 });
      expect(ordered).toHaveLength(5);
      const { reads, writes } = take(planner.client);
      expect(writes).toBe(5);
      expect(reads).toBeLessThanOrEqual(8); // the view: its head, and up to 100 cells a request

      expect(orders).toEqual([]);
      expect(await renewAll()).toEqual({ reads: 0, writes: count });
      expect(orders.toSorted()).toEqual(ordered.toSorted());
      await planner.discovery.close();
      await gatherer.discovery.close();
    },
  );
});

describe('an order to drain', () => {
  it('names each worker once, also if the table takes one of the orders only at the second attempt', async () => {
    const { bed } = await fleetOf(5);
    const gatherer = await bed.follow({ ttlMs: TTL_MS });
    await bed.pass(3000);
    const { client, discovery } = bed.open({ isLasting: false });
    const update = client.table.update.bind(client.table);
    let writes = 0;
    client.table.update = async (...change) => {
      if (++writes === 3) throw new Error('throttled');
      return await update(...change);
    };
    const ids = Array.from({ length: 5 }, (_, at) => `i-${at}`);
    const ordering = discovery.orderDrain(ids, { reason: 'scale-in', deadlineMs: 1e12 });
    await bed.pass(1000);
    const ordered = await ordering;
    expect(ordered).toHaveLength(5);
    expect(new Set(ordered).size).toBe(5);
    expect(writes).toBe(10);
    await discovery.close();
    await gatherer.discovery.close();
  });
});

describe('the deadline of an order to drain', () => {
  const order = { reason: 'scale-in', deadlineMs: 0 };

  it("means the same time at a worker whose clock is another than the planner's", async () => {
    const bed = new FleetBed();
    const worker = await bed.follow({ ttlMs: 3000 });
    await worker.discovery.put(endpointAt('ns/backend/generate/a'));
    const heard: number[] = [];
    worker.discovery.onDrainOrdered(({ deadlineMs }) => heard.push(deadlineMs - worker.clock.wallMs()));
    const planner = await bed.follow();
    planner.clock.stepWall(600_000);
    worker.clock.stepWall(-300_000);
    for (const { time, clock } of [planner, worker]) {
      time.observe(new Date(bed.clock.wallMs()).toUTCString(), clock.nowMs(), clock.nowMs());
    }
    await bed.pass(3000);
    const deadlineMs = planner.clock.wallMs() + 120_000;
    for (let times = 0; times < 3; times++) {
      expect(await planner.discovery.orderDrain(['a'], { ...order, deadlineMs })).toEqual(['a']);
      await bed.pass(3000);
    }
    expect(heard).toHaveLength(1);
    expect(Math.abs((heard[0] ?? 0) - 120_000)).toBeLessThan(5000);
    for (const { discovery } of [worker, planner]) await discovery.close();
  });
});
