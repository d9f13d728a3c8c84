/** Summary of a set of times in milliseconds. */
export interface Spread {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** Buckets per doubling: a value is known to 0.27 %. */
const STEPS = 256;
const LOWEST_MS = 2 ** -10;
const BUCKETS = 40 * STEPS;

/**
 * Times between tokens. Millions of them, so they are counted in narrow buckets of a logarithmic scale instead of kept;
 * the mean is exact. All tokens of a pass have the same gap as a rule, so its bucket is looked up once a pass.
 */
export class GapHistogram {
  readonly #counts = new Float64Array(BUCKETS);
  #count = 0;
  #sumMs = 0;
  #lastMs = -1;
  #lastBucket = 0;

  get count(): number {
    return this.#count;
  }

  get meanMs(): number {
    return this.#count === 0 ? 0 : this.#sumMs / this.#count;
  }

  add(gapMs: number): void {
    if (gapMs !== this.#lastMs) {
      this.#lastMs = gapMs;
      const bucket = Math.round(Math.log2(Math.max(gapMs, LOWEST_MS) / LOWEST_MS) * STEPS);
      this.#lastBucket = Math.min(bucket, BUCKETS - 1);
    }
    this.#counts[this.#lastBucket]!++;
    this.#count++;
    this.#sumMs += gapMs;
  }

  /** Returns the gap that the share `quantile` (0 to 1) of all does not exceed, by nearest rank; 0 without any. */
  quantileMs(quantile: number): number {
    const wanted = Math.max(1, Math.ceil(quantile * this.#count));
    let seen = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      seen += this.#counts[bucket]!;
      if (seen >= wanted) return LOWEST_MS * 2 ** (bucket / STEPS);
    }
    return 0;
  }
}

/**
 * Sums up `values`. A percentile is the value nearest to its rank, `round(p * (n - 1))`, as in the reference replays.
 * All 0 without values.
 */
export function spreadOf(values: Float64Array): Spread {
  if (values.length === 0) return { mean: 0, p50: 0, p90: 0, p99: 0 };
  const sorted = values.slice().sort();
  let sum = 0;
  for (const value of sorted) sum += value;
  const at = (share: number): number => sorted[Math.round(share * (sorted.length - 1))]!;
  return { mean: sum / sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}

/** Returns the largest value over the mean; 1 if all are 0. */
export function peakToMean(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return mean > 0 ? Math.max(...values) / mean : 1;
}
