import { openNats } from '../../nats/open-nats.ts';
import type { RequestPlaneKind } from '../types.ts';
import { createNatsRequestPlane } from './plane.ts';

export const nats: RequestPlaneKind = {
  openCalling(settings, { logger, ...options }) {
    const requestTimeoutMs = settings.natsRequestTimeoutSecs * 1000;
    const client = openNats(settings, options.clock, 'requests', logger);
    client.keepConnected(); // an unreachable broker must show at the start, not with the first request
    return createNatsRequestPlane({ requestTimeoutMs, ...options, client });
  },
  openServing: (settings, { logger, ...options }) =>
    createNatsRequestPlane({ ...options, client: openNats(settings, options.clock, 'requests', logger) }),
};
