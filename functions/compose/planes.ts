import { systemClock } from '../../shared/clock/index.ts';
import type { Settings } from '../../shared/config/index.ts';
import { createNatsEventPlane, createZmqEventPlane, type EventPlane } from '../../shared/planes/event/index.ts';
import {
  createNatsRequestPlane,
  createTcpRequestPlane,
  type RequestPlane,
  type RequestPlaneObserver,
  type TcpRequestPlaneOptions,
} from '../../shared/planes/request/index.ts';
import type { Logger } from '../../shared/telemetry/index.ts';
import { type NatsSettings, openNats } from './nats.ts';

/** Settings of the request plane that both its ends read. */
type CallerSettings = Pick<
  Settings<'frontend'> & Settings<'function'>,
  | 'requestPlane'
  | 'natsRequestTimeoutSecs'
  | 'requestPlaneCodec'
  | 'tcpConnectTimeoutSecs'
  | 'tcpRequestTimeoutSecs'
  | 'tcpChannelBuffer'
  | 'tcpMaxMessageSize'
  | 'planeToken'
> &
  NatsSettings;

type ServerSettings = Pick<
  Settings<'worker'>,
  'requestPlane' | 'requestPlaneCodec' | 'tcpRpcHost' | 'tcpRpcPort' | 'tcpMaxMessageSize' | 'planeToken'
> &
  NatsSettings;

/** How a host wants its connections to workers. */
export interface CallingPlaneOptions extends Partial<TcpRequestPlaneOptions> {
  /** Attempts to reach NATS before requests fail. @default no limit */
  readonly natsAttemptsMax?: number;
}

/** The request plane of a process that only calls. `logger` is told of outages of NATS. */
export function callingPlane(
  settings: CallerSettings,
  observer: RequestPlaneObserver,
  { natsAttemptsMax, ...more }: CallingPlaneOptions = {},
  logger?: Logger,
): RequestPlane {
  if (settings.requestPlane === 'nats') {
    const limit = natsAttemptsMax === undefined ? {} : { attemptsMax: natsAttemptsMax };
    return createNatsRequestPlane({
      client: openNats(settings, 'requests', logger, limit),
      clock: systemClock,
      observer,
      codec: settings.requestPlaneCodec,
      connectTimeoutMs: settings.tcpConnectTimeoutSecs * 1000,
      requestTimeoutMs: settings.natsRequestTimeoutSecs * 1000,
      streamsPerConnectionMax: settings.tcpChannelBuffer,
      frameBytesMax: settings.tcpMaxMessageSize,
      ...(settings.planeToken === undefined ? {} : { token: settings.planeToken }),
      ...more,
    });
  }
  return createTcpRequestPlane({
    clock: systemClock,
    observer,
    codec: settings.requestPlaneCodec,
    connectTimeoutMs: settings.tcpConnectTimeoutSecs * 1000,
    requestTimeoutMs: settings.tcpRequestTimeoutSecs * 1000,
    streamsPerConnectionMax: settings.tcpChannelBuffer,
    frameBytesMax: settings.tcpMaxMessageSize,
    ...(settings.planeToken === undefined ? {} : { token: settings.planeToken }),
    ...more,
  });
}

/**
 * Streams that a worker takes on one connection: the largest `DYN_TCP_CHANNEL_BUFFER`, so that what a caller sets is what
 * holds, and a caller that ignores every limit still meets one.
 */
const STREAMS_TAKEN_MAX = 65_536;

/** The request plane of a process that serves. `logger` is told of outages of NATS. */
export function servingPlane(settings: ServerSettings, observer: RequestPlaneObserver, logger?: Logger): RequestPlane {
  if (settings.requestPlane === 'nats') {
    return createNatsRequestPlane({
      client: openNats(settings, 'requests', logger),
      clock: systemClock,
      observer,
      codec: settings.requestPlaneCodec,
      streamsPerConnectionMax: STREAMS_TAKEN_MAX,
      frameBytesMax: settings.tcpMaxMessageSize,
      ...(settings.planeToken === undefined ? {} : { token: settings.planeToken }),
    });
  }
  return createTcpRequestPlane({
    clock: systemClock,
    observer,
    codec: settings.requestPlaneCodec,
    port: settings.tcpRpcPort,
    streamsPerConnectionMax: STREAMS_TAKEN_MAX,
    frameBytesMax: settings.tcpMaxMessageSize,
    ...(settings.tcpRpcHost === undefined ? {} : { host: settings.tcpRpcHost }),
    ...(settings.planeToken === undefined ? {} : { token: settings.planeToken }),
  });
}

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
