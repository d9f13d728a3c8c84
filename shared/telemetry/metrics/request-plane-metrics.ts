import { stepBounds } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';

/** What the request plane counts (http-api.md, section 16.3). Every call is an addition or two. */
export interface RequestPlaneMetrics {
  /** Bytes written to and read from TCP connections of the plane. */
  bytesSent(count: number): void;
  bytesReceived(count: number): void;
  /** A connection failed. */
  transportError(): void;
  /** A listener paused accepting, for want of file descriptors and the like. */
  acceptBackoff(): void;
  /** A call is under way, until `callEnded`. */
  callStarted(): void;
  callEnded(): void;
  /** Time that a call waited for a connection. */
  observeQueue(durationMs: number): void;
  /** Time to hand a call to its connection. */
  observeSend(durationMs: number): void;
  /** Time from the send to the first answer. */
  observeFirstResponse(durationMs: number): void;
}

export function createRequestPlaneMetrics(registry: MetricRegistry): RequestPlaneMetrics {
  const plane = (name: string): string => `dynamo_request_plane_${name}`;
  const tcp = (name: string, help: string) => registry.counter(`dynamo_transport_tcp_${name}`, help).with();
  const seconds = (name: string, help: string, min: number, max: number) =>
    registry.histogram(plane(name), help, stepBounds(min, max)).with();

  const queue = seconds('queue_seconds', 'Time that a call waited for a connection.', 0.0001, 1);
  const send = seconds('send_seconds', 'Time to hand a call to its connection.', 0.0001, 1);
  const first = seconds('roundtrip_ttft_seconds', 'Time from the send to the first answer.', 0.001, 5);
  const inflight = registry.gauge(plane('inflight_requests'), 'Calls under way.').with();
  const sent = tcp('bytes_sent_total', 'Bytes written to connections.');
  const received = tcp('bytes_received_total', 'Bytes read from connections.');
  const errors = tcp('errors_total', 'Connections that failed.');
  const backoffs = tcp('accept_backoff_total', 'Pauses of a listener that could not accept.');
  return {
    bytesSent: (count) => sent.add(count),
    bytesReceived: (count) => received.add(count),
    transportError: () => errors.add(),
    acceptBackoff: () => backoffs.add(),
    callStarted: () => inflight.add(1),
    callEnded: () => inflight.add(-1),
    observeQueue: (durationMs) => queue.observe(durationMs / 1000),
    observeSend: (durationMs) => send.observe(durationMs / 1000),
    observeFirstResponse: (durationMs) => first.observe(durationMs / 1000),
  };
}
