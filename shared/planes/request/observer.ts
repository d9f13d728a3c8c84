import type { RequestPlaneMetrics } from '../../telemetry/index.ts';

/**
 * Observer of a plane, for the metrics of the process. The plane calls it for each batch of frames and each request,
 * never for each token. Implementations must not throw.
 */
export interface RequestPlaneObserver extends RequestPlaneMetrics {
  /**
   * Called if the other end is not a Stator process or has other settings: only one side has a token, or only one side
   * uses TLS. Every further connection will fail in the same way. `reason` says which setting to change.
   */
  peerRefused?(address: string, reason: string): void;
  /** Called when a caller opens a connection to a worker at `address`, or has closed or lost one. */
  connectionOpened?(address: string): void;
  connectionClosed?(address: string): void;
}

/** Observes nothing. */
export const silentObserver: RequestPlaneObserver = {
  bytesSent() {},
  bytesReceived() {},
  connectionError() {},
  inflight() {},
  queued() {},
  acknowledged() {},
  firstOutput() {},
  cancelled() {},
};
