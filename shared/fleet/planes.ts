import type { Clock } from '../clock/index.ts';
import type { CallerSettings, FleetSettings } from '../config/index.ts';
import {
  type OpenPlaneOptions,
  type RequestPlane,
  type RequestPlaneObserver,
  requestPlaneKind,
} from '../planes/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** A reason is told again after this long, with how often it was met meanwhile. */
const AGAIN_MS = 60_000;

/** Reasons known at once; they come from a short list, but a peer may word its own. */
const REASONS_MAX = 64;

interface Told {
  readonly atMs: number;
  silent: number;
}

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
    ...commonOptions(settings, clock, watched(observer, clock, logger, connectionLines)),
    connectTimeoutMs: settings.tcpConnectTimeoutSecs * 1000,
    streamsPerConnectionMax: settings.tcpChannelBuffer,
    ...more,
    logger,
  });
}

/** `observer`, which also tells `logger` of peers that are set otherwise, and what `lines` say. */
function watched(
  observer: RequestPlaneObserver,
  clock: Clock,
  logger: Logger | undefined,
  lines: (logger: Logger) => Partial<RequestPlaneObserver> = () => ({}),
): RequestPlaneObserver {
  if (logger === undefined) return observer;
  return { ...observer, ...lines(logger), peerRefused: peerLines(clock, logger) };
}

/** For who asks for details: connections to workers come and go with traffic. */
function connectionLines(logger: Logger): Pick<RequestPlaneObserver, 'connectionOpened' | 'connectionClosed'> {
  return {
    connectionOpened: (address) => logger.debug('connection to a worker is opened', { address }),
    connectionClosed: (address) => logger.debug('connection to a worker is closed', { address }),
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
    ...commonOptions(settings, clock, watched(observer, clock, logger)),
    streamsPerConnectionMax: STREAMS_TAKEN_MAX,
    logger,
  });
}

/** What both ends say to either plane. */
function commonOptions({ tcpMaxMessageSize, planeToken }: FleetSettings, clock: Clock, observer: RequestPlaneObserver) {
  return {
    clock,
    observer,
    frameBytesMax: tcpMaxMessageSize,
    ...(planeToken === undefined ? {} : { token: planeToken }),
  };
}

/** Tells of peers that are set otherwise: one line a reason and minute, however many connections fail for it. */
function peerLines(clock: Pick<Clock, 'nowMs'>, logger: Logger): (address: string, reason: string) => void {
  const told = new Map<string, Told>();
  return (address, reason) => {
    const last = told.get(reason);
    if (last !== undefined && clock.nowMs() - last.atMs < AGAIN_MS) {
      last.silent++;
      return;
    }
    told.delete(reason);
    const [oldest] = told.keys();
    if (told.size >= REASONS_MAX && oldest !== undefined) told.delete(oldest);
    told.set(reason, { atMs: clock.nowMs(), silent: 0 });
    const more = last === undefined || last.silent === 0 ? {} : { notTold: last.silent };
    logger.warn('a peer on the request plane is refused, or refuses', { address, reason, ...more });
  };
}
