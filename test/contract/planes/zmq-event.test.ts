import { systemClock } from '../../../shared/clock/index.ts';
import { createZmqEventPlane } from '../../../shared/planes/index.ts';
import { describeEventPlane } from './event-plane.contract.ts';

describeEventPlane('zmq', async () => {
  const onProblem = (problem: unknown): never => {
    throw problem;
  };
  const open = () => createZmqEventPlane({ clock: systemClock, host: '127.0.0.1', onProblem });
  const [sender, receiver] = [open(), open()];
  return {
    sender,
    receiver,
    close: async () => {
      await sender.close();
      await receiver.close();
    },
  };
});
