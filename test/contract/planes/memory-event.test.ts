import { systemClock } from '../../../shared/clock/index.ts';
import type { EventScope } from '../../../shared/planes/index.ts';
import { createMemoryEventPlane } from '../../support/memory-event-plane.ts';
import { describeEventLog, LOG_TOPIC } from './event-log.contract.ts';
import { describeEventPlane } from './event-plane.contract.ts';

describeEventPlane('memory', async () => {
  const plane = createMemoryEventPlane({ clock: systemClock });
  return { sender: plane, receiver: plane, close: () => plane.close() };
});

describeEventLog('memory', async () => {
  const plane = createMemoryEventPlane({ clock: systemClock, logEntriesMax: 64 });
  const scope: EventScope = { kind: 'component', namespace: 'dynamo', component: 'backend' };
  return {
    scope,
    sender: plane,
    receiver: plane,
    recreate: async () => plane.recreateLog(scope, LOG_TOPIC),
    close: () => plane.close(),
  };
});
