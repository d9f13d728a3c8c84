import { beforeEach, describe, expect, it, vi } from 'vitest';
import { leaseItemKey } from '../../../shared/discovery/dynamodb/schema.ts';
import { endpointAt, modelAt } from '../../contract/discovery/records.ts';
import { type BedProcess, FleetBed } from './fleet-bed.ts';

const path = (at: number): string => `ns/backend/generate/${at.toString(16)}`;
const MOVED = '10.0.0.9:1';

/** Leases that the process has read one by one. */
function lookups({ client }: BedProcess): () => string[] {
  const read = vi.spyOn(client.table, 'get');
  return () => read.mock.calls.flatMap(([{ pk, sk }]) => (pk.startsWith('v1/leases') ? [sk] : []));
}

describe('a worker that cannot be reached, while the gatherer of the view stands still,', () => {
  let bed: FleetBed;
  let workers: BedProcess[];
  let gatherer: BedProcess;
  let edge: BedProcess;

  beforeEach(async () => {
    bed = new FleetBed();
    gatherer = await bed.follow();
    await bed.pass(2000);
    workers = await Promise.all(
      [1, 2, 3].map(async (at) => {
        const worker = bed.open();
        await worker.discovery.put(endpointAt(path(at)));
        await worker.discovery.put(modelAt(path(at)));
        return worker;
      }),
    );
    edge = await bed.follow();
    await bed.pass(5000);
    expect(gatherer.gathering).toEqual([true]);
    expect(edge.witness.keys).toEqual([1, 2, 3].map(path));
    edge.witness.events.length = 0;
    gatherer.freeze();
  });

  const worker = (at: number): BedProcess => workers[at - 1] as BedProcess;
  /** Events of the worker, in order: addresses that were shown, and `removed`. */
  const told = (at: number): string[] =>
    edge.witness.events
      .filter(({ key }) => key === path(at))
      .map((event) => (event.kind === 'added' ? JSON.stringify(event.record) : event.kind));

  it('and has left is gone at once, and stays away', async () => {
    await worker(1).discovery.close();
    await bed.pass(300);
    expect(told(1)).toEqual([]); // the view does not say so
    edge.discovery.recheck('1');
    await bed.pass(10);
    expect(told(1)).toEqual(['removed']);
    expect(edge.witness.keys).toEqual([2, 3].map(path));
    await bed.pass(20_000);
    expect(told(1)).toEqual(['removed']);
    expect([told(2), told(3)]).toEqual([[], []]);
  });

  it('and has moved is known by its new address at once, and stays there', async () => {
    const moved = endpointAt(path(2), MOVED);
    await worker(2).discovery.put(moved);
    await bed.pass(300);
    edge.discovery.recheck('2');
    await bed.pass(10);
    expect(told(2)).toEqual([JSON.stringify(moved)]);
    await bed.pass(20_000);
    expect(told(2)).toEqual([JSON.stringify(moved)]);
  });

  it('and has withdrawn one record of several is without that one', async () => {
    await worker(3).discovery.put(endpointAt('ns/backend/other/3'));
    await worker(3).discovery.remove(endpointAt(path(3)));
    edge.discovery.recheck('3');
    await bed.pass(10);
    expect(edge.witness.keys).toEqual([path(1), path(2), 'ns/backend/other/3']);
  });

  it('and has lost its lease is gone, and back once it has registered again', async () => {
    const [leaseId] = await leaseOf('1');
    await bed.table.connect().table.delete({ key: leaseItemKey(leaseId) }, AbortSignal.timeout(1000));
    edge.discovery.recheck('1');
    await bed.pass(10);
    expect(told(1)).toEqual(['removed']);
    await bed.pass(6500); // its next renewal, and two readings
    expect(edge.witness.keys).toEqual([1, 2, 3].map(path));
  });

  it('and has given its lease up without clearing it away is gone', async () => {
    const [leaseId] = await leaseOf('1');
    worker(1).freeze();
    const givenUp = { key: leaseItemKey(leaseId), values: { ':never': 0, ':none': 0 } };
    await bed.table.connect().table.update('SET expiresAtMs = :never, rev = :none', givenUp, AbortSignal.timeout(1000));
    edge.discovery.recheck('1');
    await bed.pass(10);
    expect(told(1)).toEqual(['removed']);
  });

  it('and has only not renewed its lease in time is left to those who watch leases', async () => {
    worker(1).clock.stepWall(-60_000); // what it writes has expired by anybody else's clock
    gatherer.thaw();
    await bed.pass(8000);
    edge.discovery.recheck('1');
    await bed.pass(10);
    worker(2).freeze();
    await bed.pass(6000);
    edge.discovery.recheck('2');
    await bed.pass(10);
    expect([told(1), told(2)]).toEqual([[], []]);
  });

  it('is looked up once in five seconds, one worker a second', async () => {
    const read = lookups(edge);
    for (let turn = 0; turn < 49; turn++) {
      for (const id of ['1', '2', '3', 'unknown']) edge.discovery.recheck(id);
      await bed.pass(100);
      expect(read().length).toBeLessThanOrEqual(1 + (turn + 1) / 10);
    }
    expect(new Set(read()).size).toBe(3);
    expect(read()).toHaveLength(3);
    await bed.pass(5000);
    edge.discovery.recheck('1');
    await bed.pass(100);
    expect(read()).toHaveLength(4);
  });

  it('is not looked up while the table is unreachable, and at once when it is back', async () => {
    edge.client.cut(true);
    await bed.pass(3000);
    const read = lookups(edge);
    edge.discovery.recheck('1');
    await bed.pass(3000);
    expect(read()).toEqual([]);
    expect(edge.witness.keys).toEqual([1, 2, 3].map(path));
    edge.client.cut(false);
    await edge.discovery.refresh(0);
    edge.discovery.recheck('1');
    await bed.pass(10);
    expect(read()).toHaveLength(1);
  });

  it('is not looked up by a process that is frozen between its requests, nor after the end', async () => {
    const frozen = await bed.follow({ isLasting: false });
    const read = [lookups(frozen), lookups(edge)];
    frozen.discovery.recheck('1');
    edge.discovery.recheck('1');
    edge.discovery.recheck('2');
    await edge.discovery.close();
    edge.discovery.recheck('3');
    await bed.pass(3000);
    expect(read.map((of) => of().length)).toEqual([0, 1]);
  });

  it('and whose lease gets no answer is reported as a problem, and known as before', async () => {
    edge.client.hang(true);
    edge.discovery.recheck('1');
    await bed.pass(2500);
    expect(edge.problems.join()).toMatch('no answer');
    expect(told(1)).toEqual([]);
  });

  /** The leases under which the instance serves, as read from the table. */
  async function leaseOf(instanceId: string): Promise<[string]> {
    const read = lookups(edge);
    edge.discovery.recheck(instanceId);
    await bed.pass(6000);
    return [read()[0] ?? ''];
  }
});
