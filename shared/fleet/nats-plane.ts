import type { FleetSettings } from '../config/index.ts';
import { createNatsRequestPlane, type NatsRequestPlaneOptions } from '../planes/nats-requests/index.ts';
import type { RequestPlane } from '../planes/request/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { openNats } from './nats.ts';

/**
 * The request plane over NATS. `logger` is told of outages.
 * @param attemptsMax attempts to reach NATS before requests fail; undefined = no limit
 */
export function natsPlane(
  settings: FleetSettings,
  options: Omit<NatsRequestPlaneOptions, 'client'>,
  logger: Logger | undefined,
  attemptsMax?: number,
): RequestPlane {
  const limit = attemptsMax === undefined ? {} : { attemptsMax };
  return createNatsRequestPlane({ ...options, client: openNats(settings, 'requests', logger, limit) });
}
