import type { MetricRegistry } from './registry.ts';

/** What a collector did not get: no room was left to keep it, or it was not taken. */
export type TelemetryDropped = (kind: 'spans' | 'lines', count: number) => void;

/** `stator_telemetry_dropped_total{kind}` in `registry`. */
export function countDroppedTelemetry(registry: MetricRegistry): TelemetryDropped {
  const about = 'Spans and log lines that no collector got.';
  const family = registry.counter('stator_telemetry_dropped_total', about, ['kind']);
  for (const kind of ['spans', 'lines']) family.with(kind).add(0);
  return (kind, count) => family.with(kind).add(count);
}
