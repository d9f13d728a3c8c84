import type { Discovery } from '../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { FreezableClock } from '../../support/index.ts';
import { describeDiscovery } from './discovery.contract.ts';

describeDiscovery(
  'memory',
  async () => {
    const hub = new MemoryHub();
    const opened: Discovery[] = [];
    return {
      async open(ttlMs = 10_000) {
        const clock = new FreezableClock();
        const problems: Error[] = [];
        const discovery = new MemoryDiscovery({ hub, clock, ttlMs, onProblem: (problem) => problems.push(problem) });
        opened.push(discovery);
        return { discovery, clock, problems };
      },
      close: async () => {
        await Promise.all(opened.map((discovery) => discovery.close()));
      },
    };
  },
  false,
);
