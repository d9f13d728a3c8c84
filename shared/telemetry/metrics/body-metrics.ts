import type { MetricRegistry } from './registry.ts';

/** What operators see of the room for request bodies. */
export interface BodyMetrics {
  /** So many bytes of bodies are held now. */
  taken(bytes: number): void;
  /** A request found no room. */
  refused(): void;
}

/** The metrics of the bodies that are being read, in `registry`. */
export function createBodyMetrics(registry: MetricRegistry): BodyMetrics {
  const bytes = registry.gauge('stator_frontend_body_bytes', 'Bytes of request bodies that are being read.', []).with();
  const refused = registry
    .counter('stator_frontend_bodies_refused_total', 'Requests that found no room for their body.', [])
    .with();
  return { taken: (count) => bytes.set(count), refused: () => refused.add() };
}
