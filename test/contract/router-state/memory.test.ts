import { VirtualClock } from '../../../shared/clock/index.ts';
import { MemoryRouterStateHub } from '../../support/router/memory-router-state.ts';
import { describeRouterState } from './router-state.contract.ts';

describeRouterState('memory', async () => {
  const hub = new MemoryRouterStateHub(new VirtualClock());
  return { open: async () => hub.open(), close: async () => {} };
});
