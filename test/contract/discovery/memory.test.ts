import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { openedHandles } from './opened-handles.ts';

describeDiscovery(
  'memory',
  async () => {
    const hub = new MemoryHub();
    const { open, closeAll } = openedHandles(async (options) => new MemoryDiscovery({ hub, ...options }));
    return { open, close: closeAll };
  },
  false,
);
