import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { EndpointRecord } from '../../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { InstanceLoads } from '../../../../shared/planner/options/instance-loads.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { signal } = new AbortController();

function endpoint(worker: string, host: string | undefined, name = 'generate'): EndpointRecord {
  return {
    type: 'Endpoint',
    namespace: 'ns',
    component: 'backend',
    endpoint: name,
    instance_id: worker,
    transport: { tcp: '10.0.0.1:8800/x' },
    ...(host === undefined ? {} : { host: { instance_id: host, generation: 'a1' } }),
  };
}

const load = (...blocks: number[]) => ({
  isDraining: false,
  ranks: blocks.map((decodeBlocks, dpRank) => ({ dpRank, requests: 1, decodeBlocks, prefillTokens: 0 })),
});

describe('loads of instances', () => {
  it('leave no watch behind if they cannot be followed', async () => {
    let closed = 0;
    const discovery = {
      watch: async () => ({ close: () => closed++ }),
      watchLoads: () => {
        throw new Error('no loads today');
      },
    } as unknown as MemoryDiscovery;
    await expect(InstanceLoads.follow(discovery, 'ns', signal)).rejects.toThrow('no loads today');
    expect(closed).toBe(1);
  });

  it('are sums over the workers and ranks of an instance, each worker once', async () => {
    const parts = { hub: new MemoryHub(), clock: new VirtualClock(), random: seededRandom(1) };
    const discovery = new MemoryDiscovery(parts);
    await discovery.put(endpoint('a', 'i-1'));
    await discovery.put(endpoint('a', 'i-1', 'clear'));
    await discovery.put(endpoint('b', 'i-1'));
    await discovery.put(endpoint('c', 'i-2'));
    await discovery.put(endpoint('d', undefined));
    const loads = await InstanceLoads.follow(discovery, 'ns', signal);
    expect(loads.of('i-1')).toBeUndefined();
    discovery.setLoad('a', load(3, 4));
    discovery.setLoad('b', load(5));
    discovery.setLoad('d', load(100));
    await parts.clock.advance(2000);
    expect(loads.of('i-1')).toEqual({ activeBlocks: 12, generation: 'a1' });
    expect(loads.of('i-2')).toBeUndefined();
    await discovery.remove(endpoint('b', 'i-1'));
    await parts.clock.advance(2000);
    expect(loads.of('i-1')).toEqual({ activeBlocks: 7, generation: 'a1' });
    loads.close();
    await discovery.close();
  });
});
