import { systemClock } from '../../shared/clock/index.ts';
import type { Settings } from '../../shared/config/index.ts';
import { createZmqEventPlane, type EventPlane } from '../../shared/planes/event/index.ts';
import {
  createTcpRequestPlane,
  type RequestPlane,
  type RequestPlaneObserver,
  type TcpRequestPlaneOptions,
} from '../../shared/planes/request/index.ts';
import type { Logger } from '../../shared/telemetry/index.ts';

/** Settings of the request plane that both its ends read. */
type CallerSettings = Pick<
  Settings<'frontend'> & Settings<'function'>,
  | 'requestPlaneCodec'
  | 'tcpConnectTimeoutSecs'
  | 'tcpRequestTimeoutSecs'
  | 'tcpChannelBuffer'
  | 'tcpMaxMessageSize'
  | 'planeToken'
>;

type ServerSettings = Pick<
  Settings<'worker'>,
  'requestPlaneCodec' | 'tcpRpcHost' | 'tcpRpcPort' | 'tcpMaxMessageSize' | 'planeToken'
>;

/** The request plane of a process that only calls. */
export function callingPlane(
  settings: CallerSettings,
  observer: RequestPlaneObserver,
  more: Partial<TcpRequestPlaneOptions> = {},
): RequestPlane {
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

/** The request plane of a process that serves. */
export function servingPlane(settings: ServerSettings, observer: RequestPlaneObserver): RequestPlane {
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

/** The event plane of a worker. */
export function eventPlane(
  settings: Pick<Settings<'worker'>, 'eventPlaneHost' | 'eventPlaneCodec'>,
  logger: Logger,
): EventPlane {
  return createZmqEventPlane({
    clock: systemClock,
    onProblem: (problem) => logger.warn('event plane problem', { problem: String(problem) }),
    ...(settings.eventPlaneHost === undefined ? {} : { host: settings.eventPlaneHost }),
    ...(settings.eventPlaneCodec === undefined ? {} : { codec: settings.eventPlaneCodec }),
  });
}
