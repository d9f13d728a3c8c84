import { stepBounds } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';

/** What a process counts of its request plane: the observer that the plane reports to. */
export interface RequestPlaneMetrics {
  bytesSent(count: number): void;
  bytesReceived(count: number): void;
  /** A connection failed or broke the protocol. */
  connectionError(): void;
  /** A listener paused, for want of file descriptors and the like. */
  acceptBackoff(): void;
  /** Calls under way changed by one. */
  inflight(delta: 1 | -1): void;
  /** Time that a call waited for an open connection. */
  queued(seconds: number): void;
  /** From then until a worker took it on. */
  acknowledged(seconds: number): void;
  /** From then until its first output. */
  firstOutput(seconds: number): void;
  /** A caller gave a call up. Not counted here: `WorkerRequestMeter.end` does, which also knows of calls that were stopped. */
  cancelled(): void;
}

export function createRequestPlaneMetrics(registry: MetricRegistry): RequestPlaneMetrics {
  const plane = (name: string): string => `dynamo_request_plane_${name}`;
  const tcp = (name: string, help: string) => registry.counter(`dynamo_transport_tcp_${name}`, help).with();
  const histogram = (name: string, help: string, min: number, max: number) =>
    registry.histogram(plane(name), help, stepBounds(min, max)).with();

  const queue = histogram('queue_seconds', 'Time that a call waited for an open connection.', 0.0001, 1);
  const send = histogram('send_seconds', 'Time from the send to the acknowledgement by a worker.', 0.0001, 1);
  const first = histogram('roundtrip_ttft_seconds', 'Time from the acknowledgement to the first output.', 0.001, 5);
  const inflight = registry.gauge(plane('inflight_requests'), 'Calls under way.').with();
  const sent = tcp('bytes_sent_total', 'Bytes written to connections.');
  const received = tcp('bytes_received_total', 'Bytes read from connections.');
  const errors = tcp('errors_total', 'Connections that failed or broke the protocol.');
  const backoffs = tcp('accept_backoff_total', 'Pauses of a listener that could not accept.');
  return {
    bytesSent: (count) => sent.add(count),
    bytesReceived: (count) => received.add(count),
    connectionError: () => errors.add(),
    acceptBackoff: () => backoffs.add(),
    inflight: (delta) => inflight.add(delta),
    queued: (seconds) => queue.observe(seconds),
    acknowledged: (seconds) => send.observe(seconds),
    firstOutput: (seconds) => first.observe(seconds),
    cancelled: () => {},
  };
}
