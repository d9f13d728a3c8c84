import { systemClock } from '../../../shared/clock/index.ts';
import { createMemoryEventPlane } from '../../../shared/planes/event/index.ts';
import { describeEventPlane } from './event-plane.contract.ts';

describeEventPlane('memory', async () => {
  const plane = createMemoryEventPlane({ clock: systemClock });
  return { sender: plane, receiver: plane, close: () => plane.close() };
});
