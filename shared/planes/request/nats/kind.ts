import { openNats } from '../../nats/open-nats.ts';
import type { RequestPlaneKind } from '../types.ts';
import { createNatsRequestPlane } from './plane.ts';

export const nats: RequestPlaneKind = {
  openCalling(settings, { logger, brokerAttemptsMax: attemptsMax, ...options }) {
    const limit = attemptsMax === undefined ? {} : { attemptsMax };
    const requestTimeoutMs = settings.natsRequestTimeoutSecs * 1000;
    const client = openNats(settings, options.clock, 'requests', logger, limit);
    // A process that lasts must notice at its start that the broker is unreachable, not at the first request.
    if (attemptsMax === undefined) client.keepConnected();
    return createNatsRequestPlane({ requestTimeoutMs, ...options, client });
  },
  openServing: (settings, { logger, ...options }) =>
    createNatsRequestPlane({ ...options, client: openNats(settings, options.clock, 'requests', logger, {}) }),
};
