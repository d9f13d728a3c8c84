import { afterAll, beforeAll, describe } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { createNatsEventPlane, type EventPlane, type EventScope, NatsClient } from '../../../shared/planes/index.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../../support/index.ts';
import { deleteStreams } from '../../support/nats-streams.ts';
import { describeEventLog } from './event-log.contract.ts';
import { describeEventPlane } from './event-plane.contract.ts';

const KIB = 1024;

describe.runIf(hasNatsServer())('with a nats-server', () => {
  let server: NatsServer;
  beforeAll(async () => {
    server = await startNatsServer();
  });
  afterAll(() => server?.stop());

  function open(): EventPlane {
    const client = new NatsClient({ clock: systemClock, servers: [server.url], retryMs: 20 });
    const log = { bytesMax: 256 * KIB, heartbeatMs: 200 };
    return createNatsEventPlane({ client, clock: systemClock, log, onProblem: () => {} });
  }

  let started = 0;
  async function start() {
    const [sender, receiver] = [open(), open()];
    const scope: EventScope = { kind: 'component', namespace: `test${started++}`, component: 'backend' };
    return {
      scope,
      sender,
      receiver,
      recreate: () => deleteStreams(server.url),
      close: async () => {
        await sender.close();
        await receiver.close();
      },
    };
  }

  describeEventPlane('nats', start);
  describeEventLog('nats', start);
});
