import { systemClock } from '../../../shared/clock/index.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';
import { describeRequestPlane } from './request-plane.contract.ts';

describeRequestPlane('memory', async (requestTimeoutMs) => {
  const plane = createMemoryRequestPlane({ clock: systemClock, requestTimeoutMs });
  return { caller: plane, worker: plane, close: () => plane.close() };
});
