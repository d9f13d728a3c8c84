/** Time constant of the mean. */
const MEAN_MS = 5000;

/** Mean of the tokens that wait in a queue, over the last seconds. A line that is gone in a moment hardly counts. */
export class MeanLine {
  #mean = 0;
  #tokens = 0;
  #atMs: number;

  constructor(nowMs: number) {
    this.#atMs = nowMs;
  }

  /** Records how many tokens wait from now on. */
  set(tokens: number, nowMs: number): void {
    this.#mean = this.at(nowMs);
    this.#tokens = tokens;
    this.#atMs = nowMs;
  }

  at(nowMs: number): number {
    const kept = Math.exp((this.#atMs - nowMs) / MEAN_MS);
    return kept * this.#mean + (1 - kept) * this.#tokens;
  }
}
