import { afterAll, beforeAll, describe } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { createZmqEventPlane, fixedBrokers } from '../../../shared/planes/index.ts';
import { provingEach, startZmqBroker, type ZmqBroker } from '../../support/zmq-broker.ts';
import { describeEventPlane } from './event-plane.contract.ts';

for (const count of [1, 2]) {
  describe(`with ${count} running`, () => {
    const running: ZmqBroker[] = [];
    beforeAll(async () => {
      for (let at = 0; at < count; at++) running.push(await startZmqBroker());
    });
    afterAll(() => Promise.all(running.map((broker) => broker.stop())));

    describeEventPlane(`zmq, brokers: ${count}`, async () => {
      const brokers = fixedBrokers({ xsub: running.map(({ xsub }) => xsub), xpub: running.map(({ xpub }) => xpub) });
      const onProblem = (problem: unknown): never => {
        throw problem;
      };
      const [sender, receiver] = [0, 1].map(() => createZmqEventPlane({ clock: systemClock, brokers, onProblem }));
      return {
        sender: sender!,
        receiver: receiver!,
        provingEachWay: (proof) => provingEach(running, proof),
        close: async () => {
          await sender!.close();
          await receiver!.close();
        },
      };
    });
  });
}
