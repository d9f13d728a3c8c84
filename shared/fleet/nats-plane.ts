import { createNatsRequestPlane, type RequestPlaneKind } from '../planes/index.ts';
import { openNats } from './nats.ts';

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
