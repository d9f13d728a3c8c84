import { systemClock } from '../../shared/clock/index.ts';
import type { Settings } from '../../shared/config/index.ts';
import { createNatsEventPlane, createZmqEventPlane, type EventPlane } from '../../shared/planes/event/index.ts';
import type { Logger } from '../../shared/telemetry/index.ts';
import { type NatsSettings, openNats } from './nats.ts';

/** Settings of the event plane: what both its ends read, and what only processes on a machine do. */
type EventSettings = Pick<Settings<'worker'> & Settings<'function'>, 'eventPlane' | 'eventPlaneCodec'> &
  Partial<
    Pick<Settings<'worker'>, 'eventPlaneHost' | 'natsStreamReplicas' | 'natsStreamMaxAgeSecs' | 'natsStreamMaxMb'>
  > &
  NatsSettings;

/** The event plane of a worker, or of a process that follows workers. */
export function eventPlane(settings: EventSettings, logger: Logger): EventPlane {
  const common = {
    clock: systemClock,
    onProblem: (problem: unknown) => logger.warn('event plane problem', { problem: String(problem) }),
    ...(settings.eventPlaneCodec === undefined ? {} : { codec: settings.eventPlaneCodec }),
  };
  if (settings.eventPlane === 'nats') {
    const { natsStreamReplicas: replicas = 1, natsStreamMaxAgeSecs = 3600, natsStreamMaxMb = 4096 } = settings;
    const log = { replicas, ageMsMax: natsStreamMaxAgeSecs * 1000, bytesMax: natsStreamMaxMb * 2 ** 20 };
    return createNatsEventPlane({ ...common, client: openNats(settings, 'events', logger), log });
  }
  return createZmqEventPlane({
    ...common,
    ...(settings.eventPlaneHost === undefined ? {} : { host: settings.eventPlaneHost }),
  });
}
