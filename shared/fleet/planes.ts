import type { Clock } from '../clock/index.ts';
import type { CallerSettings, FleetSettings } from '../config/index.ts';
import {
  type OpenPlaneOptions,
  type RequestPlane,
  type RequestPlaneObserver,
  requestPlaneKind,
} from '../planes/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** How a host wants its connections to workers. */
export type CallingPlaneOptions = Omit<OpenPlaneOptions, 'clock' | 'observer' | 'logger'>;

/** The request plane of a process that only calls. `logger` is told of its connections, and of outages of NATS. */
export async function callingPlane(
  settings: CallerSettings,
  clock: Clock,
  observer: RequestPlaneObserver,
  more: CallingPlaneOptions = {},
  logger?: Logger,
): Promise<RequestPlane> {
  const plane = await requestPlaneKind(settings);
  return plane.openCalling(settings, {
    ...commonOptions(settings, clock, watched(observer, logger, callerLines)),
    connectTimeoutMs: settings.tcpConnectTimeoutSecs * 1000,
    streamsPerConnectionMax: settings.tcpChannelBuffer,
    ...more,
    logger,
  });
}

/** `observer`, which also tells `logger` what `lines` say. */
function watched(
  observer: RequestPlaneObserver,
  logger: Logger | undefined,
  lines: (logger: Logger) => Partial<RequestPlaneObserver>,
): RequestPlaneObserver {
  return logger === undefined ? observer : { ...observer, ...lines(logger) };
}

const REFUSED = 'a peer on the request plane is refused, or refuses';

/** Peers that are set otherwise; for who asks for details also connections to workers, which come and go with traffic. */
function callerLines(logger: Logger): Partial<RequestPlaneObserver> {
  return {
    peerRefused: (address, reason) => logger.warn(REFUSED, { address, reason }),
    connectionOpened: (address) => logger.debug('connection to a worker is opened', { address }),
    connectionClosed: (address) => logger.debug('connection to a worker is closed', { address }),
  };
}

/** Peers that are set otherwise, by their host: each of their connections has another port. */
function serverLines(logger: Logger): Partial<RequestPlaneObserver> {
  return {
    peerRefused: (address, reason) => logger.warn(REFUSED, { address: address.replace(/:\d+$/, ''), reason }),
  };
}

/**
 * Streams that a worker takes on one connection: the largest `DYN_TCP_CHANNEL_BUFFER`, so that what a caller sets is what
 * holds, and a caller that ignores every limit still meets one.
 */
const STREAMS_TAKEN_MAX = 65_536;

/** The request plane of a process that serves. `logger` is told of outages of NATS. */
export async function servingPlane(
  settings: FleetSettings,
  clock: Clock,
  observer: RequestPlaneObserver,
  logger?: Logger,
): Promise<RequestPlane> {
  const plane = await requestPlaneKind(settings);
  return plane.openServing(settings, {
    ...commonOptions(settings, clock, watched(observer, logger, serverLines)),
    streamsPerConnectionMax: STREAMS_TAKEN_MAX,
    logger,
  });
}

/** What both ends say to either plane. */
function commonOptions(
  { tcpMaxMessageSize, planeToken, planeTokenPrevious }: FleetSettings,
  clock: Clock,
  observer: RequestPlaneObserver,
) {
  return {
    clock,
    observer,
    frameBytesMax: tcpMaxMessageSize,
    ...(planeToken === undefined ? {} : { token: planeToken }),
    ...(planeTokenPrevious == null ? {} : { previousToken: planeTokenPrevious }),
  };
}
