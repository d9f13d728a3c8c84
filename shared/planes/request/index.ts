/**
 * @module planes/request
 * Moves requests to workers and their output back. Knows bytes, streams, credit and deadlines; nothing about models.
 */

export {
  type FleetListener,
  formatHostPort,
  isLoopback,
  type ListenAddress,
  listenAddress,
  listenInRange,
  refuseOpenListener,
} from '../listen-address.ts';
export { type AskOnceLimits, askOnce, type OneAnswer } from './ask-once.ts';
export { requestPlaneKind } from './kinds.ts';
export { createTcpRequestPlane, type TcpRequestPlane, type TcpRequestPlaneOptions } from './tcp/plane.ts';
export { fleetHost, followCertificates, protectionOf, readPlaneTls, readServerTls } from './tcp/protection.ts';
export {
  clientTlsOptions,
  type PlaneClientTls,
  type PlaneServerTls,
  type PlaneTls,
  serverTlsOptions,
  type TokenEncryption,
} from './tcp/tls.ts';
export {
  type Call,
  type CallSink,
  type IncomingCall,
  type OpenPlaneOptions,
  type PlaneHandler,
  type PlaneRequest,
  type PlaneServer,
  type RequestPlane,
  type RequestPlaneKind,
  type RequestPlaneObserver,
  type ServeOptions,
  silentObserver,
  type Transport,
} from './types.ts';
