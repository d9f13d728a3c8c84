import { type Clock, systemClock } from '../clock/index.ts';
import type { CallerSettings, FleetSettings } from '../config/index.ts';
import {
  createTcpRequestPlane,
  type RequestPlane,
  type RequestPlaneObserver,
  type TcpRequestPlaneOptions,
} from '../planes/request/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { fleetHost } from './fleet-host.ts';
import { followPlaneTls, readPlaneTls } from './plane-tls.ts';

/** A reason is told again after this long, with how often it was met meanwhile. */
const AGAIN_MS = 60_000;

/** Reasons known at once; they come from a short list, but a peer may word its own. */
const REASONS_MAX = 64;

interface Told {
  readonly atMs: number;
  silent: number;
}

/** How a host wants its connections to workers. */
export interface CallingPlaneOptions extends Partial<TcpRequestPlaneOptions> {
  /** Attempts to reach NATS before requests fail. @default no limit */
  readonly natsAttemptsMax?: number;
}

/** The request plane of a process that only calls. `logger` is told of its connections, and of outages of NATS. */
export async function callingPlane(
  settings: CallerSettings,
  observer: RequestPlaneObserver,
  { natsAttemptsMax, ...more }: CallingPlaneOptions = {},
  logger?: Logger,
): Promise<RequestPlane> {
  const options = {
    ...commonOptions(settings, watched(observer, logger, connectionLines)),
    connectTimeoutMs: settings.tcpConnectTimeoutSecs * 1000,
    streamsPerConnectionMax: settings.tcpChannelBuffer,
  };
  if (settings.requestPlane === 'nats') {
    const { natsPlane } = await import('./nats-plane.ts');
    const requestTimeoutMs = settings.natsRequestTimeoutSecs * 1000;
    return natsPlane(settings, { ...options, requestTimeoutMs, ...more }, logger, natsAttemptsMax);
  }
  const { tcpPoolSize: poolSizeMax, tcpRequestTimeoutSecs } = settings;
  const pool = poolSizeMax === undefined ? {} : { poolSizeMax };
  return tcpPlane('client', settings, {
    ...options,
    ...pool,
    requestTimeoutMs: tcpRequestTimeoutSecs * 1000,
    ...more,
  });
}

/** `observer`, which also tells `logger` of peers that are set otherwise, and what `lines` say. */
function watched(
  observer: RequestPlaneObserver,
  logger: Logger | undefined,
  lines: (logger: Logger) => Partial<RequestPlaneObserver> = () => ({}),
): RequestPlaneObserver {
  if (logger === undefined) return observer;
  return { ...observer, ...lines(logger), peerRefused: peerLines(systemClock, logger) };
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
  observer: RequestPlaneObserver,
  logger?: Logger,
): Promise<RequestPlane> {
  const options = { ...commonOptions(settings, watched(observer, logger)), streamsPerConnectionMax: STREAMS_TAKEN_MAX };
  if (settings.requestPlane === 'nats') {
    const { natsPlane } = await import('./nats-plane.ts');
    return natsPlane(settings, options, logger);
  }
  return tcpPlane('server', settings, {
    ...options,
    port: settings.tcpRpcPort ?? 0,
    open: settings.planeOpen ?? false,
    host: fleetHost(settings.tcpRpcHost, settings, protectionOf(settings)),
  });
}

/** What callers of the TCP plane, and of the services beside it, prove. */
export function protectionOf({
  planeToken,
  tcpTlsCertPath,
  tcpTlsClientCaCertPath,
}: FleetSettings): 'token' | 'mTLS' | undefined {
  if (planeToken !== undefined) return 'token';
  return tcpTlsCertPath !== undefined && tcpTlsClientCaCertPath !== undefined ? 'mTLS' : undefined;
}

/** What both ends say to either plane. */
function commonOptions(
  { requestPlaneCodec, tcpMaxMessageSize, planeToken }: FleetSettings,
  observer: RequestPlaneObserver,
) {
  return {
    clock: systemClock,
    observer,
    codec: requestPlaneCodec,
    frameBytesMax: tcpMaxMessageSize,
    ...(planeToken === undefined ? {} : { token: planeToken }),
  };
}

/** @throws Error with one line when the settings name certificates that cannot be used, or contradict each other */
function tcpPlane(side: 'client' | 'server', settings: FleetSettings, options: TcpRequestPlaneOptions): RequestPlane {
  const tls = readPlaneTls(settings);
  const encryption = settings.planeTls;
  if (encryption === 'off' && tls !== undefined) {
    throw new Error('STATOR_PLANE_TLS=off contradicts the certificates of DYN_TCP_TLS_*: leave out one of them');
  }
  if (encryption === 'on' && settings.planeToken === undefined && tls?.[side] === undefined) {
    throw new Error(
      'STATOR_PLANE_TLS=on has nothing to encrypt with: set STATOR_PLANE_TOKEN, or certificates (DYN_TCP_TLS_*)',
    );
  }
  return tls === undefined
    ? createTcpRequestPlane({ ...options, encryption })
    : followPlaneTls(createTcpRequestPlane({ ...options, encryption, tls }), settings, tls);
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
