import { systemClock } from '../../../shared/clock/index.ts';
import { createTcpRequestPlane, type RecordCodec } from '../../../shared/planes/request/index.ts';
import { describeRequestPlane } from './request-plane.contract.ts';

function startTcp(codec: RecordCodec): Parameters<typeof describeRequestPlane>[1] {
  return async () => {
    const options = { clock: systemClock, host: '127.0.0.1', requestTimeoutMs: 300, codec, token: 'a-shared-token' };
    const caller = createTcpRequestPlane(options);
    const worker = createTcpRequestPlane(options);
    return {
      caller,
      worker,
      close: async () => {
        await caller.close();
        await worker.close();
      },
    };
  };
}

describeRequestPlane('tcp', startTcp('msgpack'));
