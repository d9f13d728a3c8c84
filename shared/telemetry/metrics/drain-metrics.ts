import type { MetricRegistry } from './registry.ts';

/** What operators see of a frontend that was told to stop. */
export interface DrainMetrics {
  /** Answers that had not reached their clients when the grace was over. */
  cut(answers: number): void;
}

export function createDrainMetrics(registry: MetricRegistry): DrainMetrics {
  const cut = registry
    .counter('stator_frontend_drain_cut_total', 'Answers that the end of the process cut off.')
    .with();
  cut.add(0); // shown from the start
  return { cut: (answers) => cut.add(answers) };
}
