import type { Clock } from '../clock/index.ts';
import type { CallerSettings, FleetSettings } from '../config/index.ts';
import {
  isOfDynamo,
  type OpenPlaneOptions,
  type RequestPlane,
  type RequestPlaneObserver,
  refuseDynamo,
  requestPlaneKind,
} from '../planes/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** Options of the connections to workers. */
export type CallingPlaneOptions = Omit<OpenPlaneOptions, 'clock' | 'observer' | 'logger'>;

/**
 * Opens the request plane of a process that only calls: Stator's own, and Dynamo's for workers of Dynamo. It logs its
 * connections, and outages of NATS, to `logger`.
 */
export async function callingPlane(
  settings: CallerSettings,
  clock: Clock,
  observer: RequestPlaneObserver,
  more: CallingPlaneOptions = {},
  logger?: Logger,
): Promise<RequestPlane> {
  const kind = await requestPlaneKind(settings);
  const watching = watched(observer, logger, callerLines);
  const plane = kind.openCalling(settings, {
    ...commonOptions(settings, clock, watching),
    connectTimeoutMs: settings.tcpConnectTimeoutSecs * 1000,
    streamsPerConnectionMax: settings.tcpChannelBuffer,
    ...more,
    logger,
  });
  if (refuseDynamo(settings) !== undefined) return plane;
  const { openDynamoPlane } = await import('../planes/index.ts');
  const dynamo = openDynamoPlane(settings, clock, watching, logger);
  return dynamo === undefined ? plane : withDynamo(plane, dynamo);
}

/** Returns `plane`, which calls workers of Dynamo over `dynamo`. The address of a worker says which it is. */
function withDynamo(plane: RequestPlane, dynamo: Pick<RequestPlane, 'call' | 'close'>): RequestPlane {
  return {
    ...plane,
    call: (transport, request, sink) => (isOfDynamo(transport) ? dynamo : plane).call(transport, request, sink),
    async close() {
      await dynamo.close();
      await plane.close();
    },
  };
}

/** Returns `observer`, extended by the methods that log `lines` to `logger`. */
function watched(
  observer: RequestPlaneObserver,
  logger: Logger | undefined,
  lines: (logger: Logger) => Partial<RequestPlaneObserver>,
): RequestPlaneObserver {
  return logger === undefined ? observer : { ...observer, ...lines(logger) };
}

const REFUSED = 'a peer on the request plane is refused, or refuses';

/**
 * Returns the log lines of a caller: peers with other settings, and at level debug connections to workers, which come
 * and go with traffic.
 */
function callerLines(logger: Logger): Partial<RequestPlaneObserver> {
  return {
    peerRefused: (address, reason) => logger.warn(REFUSED, { address, reason }),
    connectionOpened: (address) => logger.debug('connection to a worker is opened', { address }),
    connectionClosed: (address) => logger.debug('connection to a worker is closed', { address }),
  };
}

/**
 * Returns the log lines of a server: peers with other settings, named by their host, because each of their connections
 * has another port.
 */
function serverLines(logger: Logger): Partial<RequestPlaneObserver> {
  return {
    peerRefused: (address, reason) => logger.warn(REFUSED, { address: address.replace(/:\d+$/, ''), reason }),
  };
}

/**
 * Streams that a worker accepts on one connection. It is the largest `DYN_TCP_CHANNEL_BUFFER`, so that the caller's
 * setting decides, and a caller that ignores every limit still meets one.
 */
const STREAMS_TAKEN_MAX = 65_536;

/** Opens the request plane of a process that serves. It logs outages of NATS to `logger`. */
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

/** Opens the request plane of a worker that serves frontends of Dynamo (`STATOR_WIRE`). */
export async function dynamoServingPlane(
  settings: FleetSettings,
  clock: Clock,
  observer: RequestPlaneObserver,
  logger?: Logger,
): Promise<RequestPlane> {
  const { openDynamoServing } = await import('../planes/index.ts');
  return openDynamoServing(settings, { ...commonOptions(settings, clock, watched(observer, logger, serverLines)) });
}

/** Returns the options that callers and servers share. */
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
