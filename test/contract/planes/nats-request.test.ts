import { afterAll, beforeAll, describe } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { NatsClient } from '../../../shared/planes/index.ts';
import { createNatsRequestPlane } from '../../../shared/planes/request/nats/plane.ts';
import { hasNatsServer, type NatsServer, startNatsServer } from '../../support/index.ts';
import { describeRequestPlane } from './request-plane.contract.ts';

describe.runIf(hasNatsServer())('with a nats-server', () => {
  let server: NatsServer;
  beforeAll(async () => {
    server = await startNatsServer();
  });
  afterAll(() => server?.stop());

  function open(requestTimeoutMs: number, token = 'a-shared-token') {
    const client = new NatsClient({ clock: systemClock, servers: [server.url] });
    const options = { client, clock: systemClock, requestTimeoutMs, token };
    return createNatsRequestPlane(options);
  }

  describeRequestPlane('nats', async (requestTimeoutMs) => {
    const [caller, worker] = [open(requestTimeoutMs), open(requestTimeoutMs)];
    return {
      caller,
      worker,
      stranger: () => open(requestTimeoutMs, 'another-token'),
      close: async () => {
        await caller.close();
        await worker.close();
      },
    };
  });
});
