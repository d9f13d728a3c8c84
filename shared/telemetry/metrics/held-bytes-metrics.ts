import type { MetricRegistry } from './registry.ts';

/** What operators see of the bytes that are held of requests under way; each is told how many there are now. */
export interface HeldBytesMetrics {
  bodies(bytes: number): void;
  answers(bytes: number): void;
}

/** The metrics of the bytes that are held of requests under way, in `registry`. */
export function createHeldBytesMetrics(registry: MetricRegistry): HeldBytesMetrics {
  const bodies = registry
    .gauge('stator_frontend_body_bytes', 'Bytes of request bodies that are being read.', [])
    .with();
  const answers = registry
    .gauge('stator_frontend_answer_bytes', 'Memory of answers that are kept until they are whole, about.', [])
    .with();
  return { bodies: (bytes) => bodies.set(bytes), answers: (bytes) => answers.set(bytes) };
}
