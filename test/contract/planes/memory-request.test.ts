import { systemClock } from '../../../shared/clock/index.ts';
import { createMemoryRequestPlane } from '../../../shared/planes/request/index.ts';
import { describeRequestPlane } from './request-plane.contract.ts';

describeRequestPlane('memory', async (requestTimeoutMs) => {
  const plane = createMemoryRequestPlane({ clock: systemClock, requestTimeoutMs });
  return { caller: plane, worker: plane, close: () => plane.close() };
});
