/**
 * @module planes/request
 * Moves requests to workers and their output back. Knows bytes, streams, credit and deadlines; nothing about models.
 */
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
