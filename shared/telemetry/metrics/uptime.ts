import type { Clock } from '../../clock/index.ts';
import type { MetricRegistry } from './registry.ts';
import type { Gauge } from './series.ts';

/** Keeps `gauge` at the seconds since this call. */
export function exposeUptime(registry: MetricRegistry, clock: Clock, gauge: Gauge): void {
  const startedMs = clock.nowMs();
  registry.beforeScrape(() => gauge.set((clock.nowMs() - startedMs) / 1000));
}
