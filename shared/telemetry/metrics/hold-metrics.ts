import type { MetricRegistry } from './registry.ts';

/** What operators see of requests that wait for a worker to be started. */
export interface HoldMetrics {
  /** So many requests of the model wait now. */
  holding(model: string, count: number): void;
  /** A request waits no more. */
  held(model: string, outcome: 'served' | 'timeout' | 'cancelled' | 'refused', waitedMs: number): void;
}

/** Seconds; a start of a worker takes from seconds to a quarter of an hour. */
const WAIT_SECONDS = [0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 900];

/** The metrics of requests that wait for a worker, in `registry`. */
export function createHoldMetrics(registry: MetricRegistry): HoldMetrics {
  const name = (rest: string): string => `stator_frontend_${rest}`;
  const waiting = registry.gauge(name('held_requests'), 'Requests that wait for a worker of the model.', ['model']);
  const seconds = registry.histogram(name('hold_seconds'), 'Time that held requests waited.', WAIT_SECONDS, [
    'model',
    'outcome',
  ]);
  const timeouts = registry.counter(name('hold_timeouts_total'), 'Requests that waited for a worker in vain.', [
    'model',
  ]);
  const refused = registry.counter(name('hold_refused_total'), 'Requests that found no room to wait for a worker.', [
    'model',
  ]);
  return {
    holding: (model, count) => waiting.with(model).set(count),
    held: (model, outcome, waitedMs) => {
      if (outcome === 'refused') return refused.with(model).add();
      if (outcome === 'timeout') timeouts.with(model).add();
      seconds.with(model, outcome).observe(waitedMs / 1000);
    },
  };
}
