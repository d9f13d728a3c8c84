/** Lag until one is measured, in milliseconds. */
const START_MS = 5;
/** Latest measured lags, from which the median comes. */
const KEPT = 9;
/** Age at which measured lags say nothing any more. */
const STALE_MS = 60_000;

/**
 * Time from a message of this router until other routers hear it: the median of the latest ones, so that single pauses
 * do not count. It starts at 5 ms, and is 5 ms again a minute after the last message.
 */
export class MessageLag {
  #latest: readonly number[] = [START_MS, START_MS];
  #medianMs = START_MS;
  #measuredMs = Number.NEGATIVE_INFINITY;

  measured(lagMs: number, nowMs: number): void {
    const before = nowMs - this.#measuredMs > STALE_MS ? [START_MS, START_MS] : this.#latest;
    this.#latest = [...before, lagMs].slice(-KEPT);
    this.#measuredMs = nowMs;
    const inOrder = [...this.#latest].sort((a, b) => a - b);
    this.#medianMs = inOrder[inOrder.length >> 1] as number;
  }

  at(nowMs: number): number {
    return nowMs - this.#measuredMs > STALE_MS ? START_MS : this.#medianMs;
  }
}
