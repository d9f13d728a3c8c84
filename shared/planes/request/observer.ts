import type { RequestPlaneMetrics } from '../../telemetry/index.ts';

/**
 * What a plane tells the metrics of the process. Called per frame batch and per request, never
 * per token. Implementations must not throw.
 */
export interface RequestPlaneObserver extends RequestPlaneMetrics {
  /**
   * The other end is none of ours or is set otherwise, and every further connection will fail alike: a token that only one
   * side has, TLS that only one side speaks. `reason` says what to set.
   */
  peerRefused?(address: string, reason: string): void;
  /** A caller opens a connection to a worker at `address`, or has closed or lost one. */
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
