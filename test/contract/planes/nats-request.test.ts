import { afterAll, beforeAll, describe } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { createNatsClient } from '../../../shared/planes/nats/index.ts';
import { createNatsRequestPlane } from '../../../shared/planes/nats-requests/index.ts';
import type { RequestPlane } from '../../../shared/planes/request/index.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../../support/index.ts';
import { describeRequestPlane } from './request-plane.contract.ts';

describe.runIf(hasNatsServer())('with a nats-server', () => {
  let server: NatsServer;
  beforeAll(async () => {
    server = await startNatsServer();
  });
  afterAll(() => server?.stop());

  function open(): RequestPlane {
    const client = createNatsClient({ clock: systemClock, servers: [server.url] });
    return createNatsRequestPlane({ client, clock: systemClock, requestTimeoutMs: 300, token: 'a-shared-token' });
  }

  describeRequestPlane('nats', async () => {
    const [caller, worker] = [open(), open()];
    return {
      caller,
      worker,
      close: async () => {
        await caller.close();
        await worker.close();
      },
    };
  });
});
