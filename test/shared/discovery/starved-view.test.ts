import { beforeEach, describe, expect, it } from 'vitest';
import { endpointAt } from '../../contract/discovery/records.ts';
import { type BedProcess, FleetBed } from './fleet-bed.ts';

const ENVIRONMENTS = 50;
/** Capacity of a table that serves the gatherer, and a reading of the view by each environment. */
const CALLS_PER_SECOND = 200;
const path = (at: number): string => `ns/backend/generate/${at}`;

let bed: FleetBed;
let worker: BedProcess;
let environments: BedProcess[];

/** Lets each environment serve a request in each second. Returns the calls to the table in each second. */
async function serve(seconds: number): Promise<readonly number[]> {
  const callsOf = () => environments.reduce((sum, { client: { counts } }) => sum + counts.reads, 0);
  const perSecond: number[] = [];
  for (let second = 0; second < seconds; second++) {
    const before = callsOf();
    for (const { discovery } of environments) {
      void discovery.refresh(1000);
      await bed.pass(1000 / ENVIRONMENTS, 1000 / ENVIRONMENTS);
    }
    perSecond.push(callsOf() - before);
  }
  return perSecond;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

beforeEach(async () => {
  bed = new FleetBed();
  worker = bed.open();
  await worker.discovery.put(endpointAt(path(1)));
  await bed.pass(3000);
  environments = [];
  for (let at = 0; at < ENVIRONMENTS; at++) environments.push(await bed.follow({ isLasting: false }));
  await serve(5);
});

describe('fifty functions whose view is too old', () => {
  it('read the leases spread over time and ever less often', async () => {
    worker.freeze();
    const calls = await serve(60);
    // Beside the head each second: five readings of 16 partitions and the old view in a minute
    expect(sum(calls)).toBeLessThanOrEqual(ENVIRONMENTS * (60 + 6 * 18));
    expect(Math.max(...calls)).toBeLessThanOrEqual(ENVIRONMENTS * (1 + 18 / 2));
    expect(sum(calls.slice(-20)) / 20).toBeLessThanOrEqual(ENVIRONMENTS * 2.5);
    for (const { witness } of environments) expect(witness.keys).toEqual([]); // all know that the worker is gone
  });

  it('let the gatherer of a table of limited capacity write the view again', async () => {
    bed.table.limit(CALLS_PER_SECOND);
    worker.freeze();
    const calls = await serve(30);
    expect(sum(calls) / 30).toBeLessThanOrEqual(CALLS_PER_SECOND * 0.75);
    worker.thaw();
    await serve(30);
    const putting = worker.discovery.put(endpointAt(path(2)));
    await serve(10);
    await putting;
    for (const { witness, sources } of environments) {
      expect(witness.keys).toEqual([path(1), path(2)]);
      expect(sources.at(-1)).toBe('view');
    }
  });

  it('do not delay another one that starts', async () => {
    worker.freeze();
    await serve(5);
    const late = await bed.follow({ isLasting: false });
    expect(late.witness.keys).toEqual([path(1)]);
    expect(late.sources).toEqual(['leases']);
  });
});
