import type { Clock } from '../../clock/index.ts';

/**
 * How long a prefill worker that drains keeps its engine: nobody tells when decode workers have fetched the blocks of the last
 * prompts, so each of these is given the same time (`DYN_PREFILL_DRAIN_TIMEOUT_S`).
 */
export class LastFetches {
  readonly #clock: Clock;
  readonly #keepMs: number;
  #lastEndMs = Number.NEGATIVE_INFINITY;

  /** @param keepMs after the end of each prompt; 0 = blocks are not waited for */
  constructor(clock: Clock, keepMs: number) {
    this.#clock = clock;
    this.#keepMs = keepMs;
  }

  /** A prompt has been computed. */
  noteEnd(): void {
    this.#lastEndMs = this.#clock.nowMs();
  }

  /** Resolves when the time of the last prompt is over. */
  async over(): Promise<void> {
    const leftMs = this.#lastEndMs + this.#keepMs - this.#clock.nowMs();
    if (leftMs > 0) await this.#clock.sleep(leftMs);
  }
}
