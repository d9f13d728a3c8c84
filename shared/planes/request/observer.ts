/**
 * What a plane tells the metrics of the process. Called per frame batch and per request, never
 * per token. Implementations must not throw.
 */
export interface RequestPlaneObserver {
  bytesSent(count: number): void;
  bytesReceived(count: number): void;
  /** A connection failed or broke the protocol. */
  connectionError(): void;
  /**
   * The other end is none of ours or is set otherwise, and every further connection will fail alike: a token that only one
   * side has, TLS that only one side speaks. `reason` says what to set.
   */
  peerRefused?(address: string, reason: string): void;
  /** A caller opens a connection to a worker at `address`, or has closed or lost one. */
  connectionOpened?(address: string): void;
  connectionClosed?(address: string): void;
  /** Requests under way at this caller changed by one. */
  inflight(delta: 1 | -1): void;
  /** From `call` until the request was handed to an open connection. */
  queued(seconds: number): void;
  /** From then until the worker took it on. */
  acknowledged(seconds: number): void;
  /** From then until its first output. */
  firstOutput(seconds: number): void;
  /** A caller killed a request or its connection was lost; once a request, on the worker's side. */
  cancelled(): void;
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
