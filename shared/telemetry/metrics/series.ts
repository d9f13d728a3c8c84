import type { Clock } from '../../clock/index.ts';
import type { MetricRegistry } from './registry.ts';

/** A number that only grows. */
export class Counter {
  value = 0;

  add(amount = 1): void {
    this.value += amount;
  }
}

/** A number that goes both ways. */
export class Gauge {
  value = 0;

  set(value: number): void {
    this.value = value;
  }

  add(amount: number): void {
    this.value += amount;
  }
}

/**
 * One histogram series: plain counts in a typed array, made cumulative only when scraped.
 *
 *     bounds  [b0, b1, ... bn-1]
 *     counts  [<= b0, (b0, b1], ... , > bn-1]
 */
export class Histogram {
  readonly counts: Float64Array;
  sum = 0;
  readonly #bounds: Float64Array;

  constructor(bounds: Float64Array) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  /** Counts `value` `times` times. */
  observe(value: number, times = 1): void {
    const bounds = this.#bounds;
    // A linear scan: latencies of a healthy system sit in the first few buckets, and 20 comparisons are no more than a
    // mispredicted branch or two.
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    this.counts[at]! += times;
    this.sum += value * times;
  }
}

/** Keeps `gauge` at the seconds since this call. */
export function exposeUptime(registry: MetricRegistry, clock: Clock, gauge: Gauge): void {
  const startedMs = clock.nowMs();
  registry.beforeScrape(() => gauge.set((clock.nowMs() - startedMs) / 1000));
}
