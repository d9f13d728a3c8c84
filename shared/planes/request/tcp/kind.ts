import type { FleetSettings } from '../../../config/index.ts';
import type { RequestPlane, RequestPlaneKind } from '../types.ts';
import { createTcpRequestPlane, type TcpRequestPlaneOptions } from './plane.ts';
import { fleetHost, followPlaneTls, protectionOf, readPlaneTls } from './protection.ts';

export const tcp: RequestPlaneKind = {
  openCalling: (settings, options) =>
    open('client', settings, {
      ...(settings.tcpPoolSize === undefined ? {} : { poolSizeMax: settings.tcpPoolSize }),
      requestTimeoutMs: settings.tcpRequestTimeoutSecs * 1000,
      ...options,
    }),
  openServing: (settings, options) =>
    open('server', settings, {
      ...options,
      ...(settings.tcpRpcPort === undefined ? {} : { ports: settings.tcpRpcPort }),
      advertiseHost: settings.tcpRpcAdvertiseHost,
      open: settings.planeOpen ?? false,
      host: fleetHost(settings.tcpRpcHost, settings, protectionOf(settings)),
    }),
};

/** @throws Error with one line if the settings name certificates that cannot be used, or contradict each other */
function open(side: 'client' | 'server', settings: FleetSettings, options: TcpRequestPlaneOptions): RequestPlane {
  const tls = readPlaneTls(settings);
  const encryption = settings.planeTls;
  if (encryption === 'off' && tls !== undefined) {
    throw new Error('STATOR_PLANE_TLS=off contradicts the certificates of DYN_TCP_TLS_*: leave out one of them');
  }
  if (encryption === 'on' && settings.planeToken === undefined && tls?.[side] === undefined) {
    throw new Error(
      'STATOR_PLANE_TLS=on has no key to encrypt with: set STATOR_PLANE_TOKEN, or certificates (DYN_TCP_TLS_*)',
    );
  }
  return tls === undefined
    ? createTcpRequestPlane({ ...options, encryption })
    : followPlaneTls(createTcpRequestPlane({ ...options, encryption, tls }), settings, tls, options.clock);
}
