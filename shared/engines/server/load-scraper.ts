import type { Clock, Timer } from '../../clock/index.ts';

export interface LoadScraperOptions {
  readonly clock: Clock;
  readonly intervalMs: number;
  /** The engine's metrics in Prometheus' text format. */
  fetch(): Promise<string>;
  onMetrics(text: string): void;
  /** The engine did not answer. */
  onSilence(reason: unknown): void;
}

/** Reads the engine's metrics again and again, one reading at a time. */
export class LoadScraper {
  readonly #options: LoadScraperOptions;
  readonly #timer: Timer;
  #isReading = false;
  #isStopped = false;

  constructor(options: LoadScraperOptions) {
    this.#options = options;
    this.#timer = options.clock.every(options.intervalMs, () => {
      if (!this.#isReading) void this.#read();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer.cancel();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    try {
      const text = await this.#options.fetch();
      if (!this.#isStopped) this.#options.onMetrics(text);
    } catch (reason) {
      if (!this.#isStopped) this.#options.onSilence(reason);
    } finally {
      this.#isReading = false;
    }
  }
}
