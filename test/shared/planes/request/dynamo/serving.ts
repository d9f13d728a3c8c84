import { systemClock } from '../../../../../shared/clock/index.ts';
import { DynamoPlane } from '../../../../../shared/planes/request/dynamo/plane.ts';
import type { ServingSettings } from '../../../../../shared/planes/request/dynamo/serving-settings.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';

const MESSAGE_BYTES_MAX = 1 << 20;

/** Settings of a worker that serves callers of Dynamo on this machine. */
export function servingSettings(more: Partial<ServingSettings> = {}): ServingSettings {
  return {
    clock: systemClock,
    observer: silentObserver,
    host: '127.0.0.1',
    advertiseHost: undefined,
    ports: { first: 0, last: 0 },
    tls: undefined,
    messageBytesMax: MESSAGE_BYTES_MAX,
    dialTimeoutMs: 5000,
    open: false,
    ...more,
  };
}

/** Opens a plane that calls such a worker. */
export function openCaller(): DynamoPlane {
  return new DynamoPlane({
    clock: systemClock,
    observer: silentObserver,
    home: { host: '127.0.0.1', port: 0, handshakeTimeoutMs: 3000, messageBytesMax: 4 * MESSAGE_BYTES_MAX },
    requests: {
      connectTimeoutMs: 5000,
      requestTimeoutMs: 5000,
      poolSizeMax: 2,
      requestsPerConnectionMax: 100,
      idleAfterMs: 300_000,
    },
    openNats: () => {
      throw new Error('no NATS here');
    },
    natsTimeoutMs: 5000,
  });
}
