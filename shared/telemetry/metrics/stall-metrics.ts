import type { MetricRegistry } from './registry.ts';

/** What operators see of workers that fall silent. */
export interface StallMetrics {
  workerStalled(model: string): void;
  workerRecovered(model: string): void;
  canary(outcome: 'passed' | 'failed'): void;
}

export function createStallMetrics(registry: MetricRegistry): StallMetrics {
  const name = (rest: string): string => `stator_frontend_${rest}`;
  const stalled = registry.gauge(name('stalled_workers'), 'Workers that get no request until a canary passes.', [
    'model',
  ]);
  const stalls = registry.counter(name('worker_stalls_total'), 'Times that a worker fell silent.', ['model']);
  const canaries = registry.counter(name('canaries_total'), 'Canaries sent to silent workers.', ['outcome']);
  return {
    workerStalled: (model) => {
      stalls.with(model).add();
      stalled.with(model).add(1);
    },
    workerRecovered: (model) => stalled.with(model).add(-1),
    canary: (outcome) => canaries.with(outcome).add(),
  };
}
