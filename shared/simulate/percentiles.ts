/** A set of times in milliseconds, summed up. */
export interface Spread {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/**
 * Sums up `values`. A percentile is the value nearest to its rank, `round(p * (n - 1))`, as in the reference replays. All 0 without values.
 */
export function spreadOf(values: Float64Array): Spread {
  if (values.length === 0) return { mean: 0, p50: 0, p90: 0, p99: 0 };
  const sorted = values.slice().sort();
  let sum = 0;
  for (const value of sorted) sum += value;
  const at = (share: number): number => sorted[Math.round(share * (sorted.length - 1))]!;
  return { mean: sum / sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}

/** Largest value over the mean; 1 when nobody did anything. */
export function peakToMean(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return mean > 0 ? Math.max(...values) / mean : 1;
}
