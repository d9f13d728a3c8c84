import { openNats } from '../../nats/open-nats.ts';
import type { RequestPlaneKind } from '../types.ts';
import { createNatsRequestPlane } from './plane.ts';

export const nats: RequestPlaneKind = {
  openCalling(settings, { logger, brokerAttemptsMax: attemptsMax, ...options }) {
    const limit = attemptsMax === undefined ? {} : { attemptsMax };
    const requestTimeoutMs = settings.natsRequestTimeoutSecs * 1000;
    return createNatsRequestPlane({
      requestTimeoutMs,
      ...options,
      client: openNats(settings, options.clock, 'requests', logger, limit),
    });
  },
  openServing: (settings, { logger, ...options }) =>
    createNatsRequestPlane({ ...options, client: openNats(settings, options.clock, 'requests', logger, {}) }),
};
