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
  refuseOpenListener,
} from '../listen-address.ts';
export { listenInRange } from '../listen-in-range.ts';
export type { RecordCodec } from '../record-codec.ts';
export { type AskOnceLimits, askOnce, type OneAnswer } from './ask-once.ts';
export { createMemoryRequestPlane, type MemoryRequestPlaneOptions } from './memory/plane.ts';
export { type RequestPlaneObserver, silentObserver } from './observer.ts';
export type { OpenPlaneOptions, RequestPlaneKind } from './plane-kind.ts';
export { siblingTransport } from './sibling.ts';
export type { TokenEncryption } from './tcp/encryption.ts';
export { createTcpRequestPlane, type TcpRequestPlane } from './tcp/plane.ts';
export type { TcpRequestPlaneOptions } from './tcp/settings.ts';
export {
  clientTlsOptions,
  type PlaneClientTls,
  type PlaneServerTls,
  type PlaneTls,
  serverTlsOptions,
} from './tcp/tls.ts';
export type {
  Call,
  CallSink,
  IncomingCall,
  PlaneErrorKind,
  PlaneHandler,
  PlaneRequest,
  PlaneServer,
  RequestPlane,
  ServeOptions,
  Transport,
} from './types.ts';
