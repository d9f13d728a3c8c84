import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { endpointAt, Witness } from '../../contract/discovery/records.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const instances = { bucket: 'v1/instances', prefix: '' } as const;

/** A hub with its own time, and two processes of which only the second's time may stand still. */
function start() {
  const [clock, crashed] = [new VirtualClock(), new VirtualClock()];
  const hub = new MemoryHub(clock);
  const living = new MemoryDiscovery({ hub, clock, random: seededRandom(1) });
  const dying = new MemoryDiscovery({ hub, clock: crashed, random: seededRandom(2) });
  return { clock, crashed, living, dying };
}

describe('MemoryDiscovery', () => {
  it('removes the records of a silent process exactly at its time to live', async () => {
    const { clock, living, dying } = start();
    const witness = new Witness();
    await living.watch(instances, witness);
    await living.put(endpointAt('ns/c/e/1'));
    await dying.put(endpointAt('ns/c/e/2'));
    await clock.advance(9_999);
    expect(witness.present.size).toBe(2);
    await clock.advance(1);
    expect(witness.keys).toEqual(['ns/c/e/1']);
    await clock.advance(3_600_000);
    expect(witness.keys).toEqual(['ns/c/e/1']);
  });

  it('leaves no timer behind when everything is closed', async () => {
    const { clock, crashed, living, dying } = start();
    await living.put(endpointAt('ns/c/e/1'));
    await dying.put(endpointAt('ns/c/e/2'));
    await living.close();
    await dying.close();
    expect(clock.pendingTimers + crashed.pendingTimers).toBe(0);
  });

  it('tells every listener of changes in their order, also of those that a listener makes', async () => {
    const { living } = start();
    const second = new Witness();
    await living.watch(instances, {
      event: (event) => {
        if (event.key === 'ns/c/e/1') void living.put(endpointAt('ns/c/e/2'));
      },
    });
    await living.watch(instances, second);
    await living.put(endpointAt('ns/c/e/1'));
    expect(second.events.map((event) => event.key)).toEqual(['ns/c/e/1', 'ns/c/e/2']);
  });
});
