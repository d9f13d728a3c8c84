/**
 * Smallest bound in milliseconds. Each next bound is `GROWTH` times the one before; the last one is above 5 minutes.
 */
const FIRST_MS = 1;
const GROWTH = 1.25;
const BUCKETS = 58;
const LOG_GROWTH = Math.log(GROWTH);

/** Quantiles that the console shows. */
export interface Quantiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/**
 * Counts of durations in buckets whose bounds grow by a quarter. A quantile of it is off by an eighth at most, and two
 * histograms can be added.
 */
export class LogHistogram {
  readonly #counts = new Uint32Array(BUCKETS);
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** Counts a duration in milliseconds. */
  observe(ms: number): void {
    const bucket = ms <= FIRST_MS ? 0 : Math.ceil(Math.log(ms / FIRST_MS) / LOG_GROWTH);
    this.#counts[Math.min(bucket, BUCKETS - 1)]!++; // in range by the line above
    this.#total++;
  }

  /** Adds the counts of another histogram. */
  add(other: LogHistogram): void {
    if (other.#total === 0) return;
    for (let at = 0; at < BUCKETS; at++) this.#counts[at]! += other.#counts[at]!; // same length
    this.#total += other.#total;
  }

  clear(): void {
    if (this.#total === 0) return;
    this.#counts.fill(0);
    this.#total = 0;
  }

  /**
   * Returns the duration that a share of the counted ones does not exceed, in milliseconds; undefined if there are
   * none.
   */
  quantile(share: number): number | undefined {
    if (this.#total === 0) return undefined;
    const rank = share * this.#total;
    let below = 0;
    for (let at = 0; at < BUCKETS; at++) {
      const count = this.#counts[at]!;
      if (count > 0 && below + count >= rank) return between(at, (rank - below) / count);
      below += count;
    }
    return FIRST_MS * GROWTH ** (BUCKETS - 1);
  }

  quantiles(): Quantiles | null {
    const [p50, p95, p99] = [this.quantile(0.5), this.quantile(0.95), this.quantile(0.99)];
    return p50 === undefined || p95 === undefined || p99 === undefined ? null : { p50, p95, p99 };
  }
}

/** Returns a duration inside a bucket, rounded to three digits. @param share how far into the bucket, 0 to 1 */
function between(bucket: number, share: number): number {
  const ms = bucket === 0 ? FIRST_MS * share : FIRST_MS * GROWTH ** (bucket - 1 + share);
  return Number(ms.toPrecision(3));
}
