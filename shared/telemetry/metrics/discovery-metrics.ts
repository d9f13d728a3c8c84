import type { MetricRegistry } from './registry.ts';

/** Where a reading of the fleet came from. */
type ReadingSource = 'view' | 'leases' | 'gathered';

/** What operators see of how a process knows the fleet, where discovery keeps a view of it. */
export interface DiscoveryMetrics {
  /** A reading was made; the view that it shows was written `ageMs` ago. */
  read(source: ReadingSource, ageMs: number): void;
  /** Whether this process gathers the view for all. */
  gathering(isGathering: boolean): void;
}

export function createDiscoveryMetrics(registry: MetricRegistry): DiscoveryMetrics {
  const age = registry
    .gauge('stator_discovery_view_age_seconds', 'Age of the fleet view when it was read last.')
    .with();
  const gathers = registry
    .gauge('stator_discovery_gathering', 'Whether this process gathers the fleet view for all.')
    .with();
  const readings = registry.counter(
    'stator_discovery_readings_total',
    'Readings of the fleet: of the view, of the leases in place of a view that is too old, or to gather the view.',
    ['source'],
  );
  gathers.set(0);
  return {
    read: (source, ageMs) => {
      readings.with(source).add();
      age.set(ageMs / 1000);
    },
    gathering: (isGathering) => gathers.set(isGathering ? 1 : 0),
  };
}
