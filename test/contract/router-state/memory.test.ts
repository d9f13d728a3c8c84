import { MemoryRouterStateHub } from '../../support/router/memory-router-state.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { describeRouterState } from './router-state.contract.ts';

describeRouterState('memory', async () => {
  const hub = new MemoryRouterStateHub(new VirtualClock());
  return { open: async () => hub.open(), close: async () => {} };
});
