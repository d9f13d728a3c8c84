import { systemClock } from '../../../shared/clock/index.ts';
import { createTcpRequestPlane } from '../../../shared/planes/request/tcp/plane.ts';
import type { PlaneTls, TokenEncryption } from '../../../shared/planes/request/tcp/tls.ts';
import { readTlsFixture } from '../../support/index.ts';
import { describeRequestPlane } from './request-plane.contract.ts';

function startTcp(tls?: PlaneTls, encryption: TokenEncryption = 'auto'): Parameters<typeof describeRequestPlane>[1] {
  return async (requestTimeoutMs) => {
    const options = {
      clock: systemClock,
      host: '127.0.0.1',
      requestTimeoutMs,
      token: 'a-shared-token',
      encryption,
      ...(tls && { tls }),
    };
    const caller = createTcpRequestPlane(options);
    const worker = createTcpRequestPlane(options);
    return {
      caller,
      worker,
      stranger: () => createTcpRequestPlane({ ...options, token: 'another-token' }),
      close: async () => {
        await caller.close();
        await worker.close();
      },
    };
  };
}

describeRequestPlane('tcp', startTcp());
describeRequestPlane('tcp encrypted by its token', startTcp(undefined, 'on'));
describeRequestPlane(
  'tcp with mutual TLS',
  startTcp({
    server: {
      cert: readTlsFixture('first.crt'),
      key: readTlsFixture('first.key'),
      clientCa: readTlsFixture('client.crt'),
    },
    client: { ca: readTlsFixture('first.crt'), cert: readTlsFixture('client.crt'), key: readTlsFixture('client.key') },
  }),
);
