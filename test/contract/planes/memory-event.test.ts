import { systemClock } from '../../../shared/clock/index.ts';
import { createMemoryEventPlane } from '../../../shared/planes/event/index.ts';
import { describeEventLog, LOG_SCOPE, LOG_TOPIC } from './event-log.contract.ts';
import { describeEventPlane } from './event-plane.contract.ts';

describeEventPlane('memory', async () => {
  const plane = createMemoryEventPlane({ clock: systemClock });
  return { sender: plane, receiver: plane, close: () => plane.close() };
});

describeEventLog('memory', async () => {
  const plane = createMemoryEventPlane({ clock: systemClock, logEntriesMax: 64 });
  return {
    sender: plane,
    receiver: plane,
    recreate: async () => plane.recreateLog(LOG_SCOPE, LOG_TOPIC),
    close: () => plane.close(),
  };
});
