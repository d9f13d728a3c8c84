import type { Clock } from '../clock/index.ts';

/**
 * Lets a fixed number of tasks run at the same time, or one after the other; the others wait in order of arrival. The
 * caller limits how many wait.
 */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(atOnceMax: number) {
    this.#free = atOnceMax;
  }

  /**
   * Runs `work` once a slot is free. Rejects with the signal's reason if the signal aborts before that; work under way
   * watches the signal itself.
   */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    await this.#take(signal);
    try {
      return await work();
    } finally {
      this.#giveBack();
    }
  }

  #take(signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#free > 0) {
      this.#free--;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(onTurn);
        reject(signal?.reason);
      };
      const onTurn = (): void => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(onTurn);
    });
  }

  #giveBack(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

const PARALLEL = 16;

/** Visits all `items`, 16 at the same time. Rejects with the first failure, once its batch has settled. */
export async function inBatches<T>(items: readonly T[], visit: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += PARALLEL) {
    const results = await Promise.allSettled(items.slice(at, at + PARALLEL).map(visit));
    const failure = results.find((result) => result.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
  }
}

/**
 * Limits how often something may be done per second, on average. A request is granted whole as long as anything is
 * left, and later requests wait until it is paid back.
 */
export class RateBudget {
  readonly #clock: Clock;
  readonly #perSecond: number;
  readonly #savedMax: number;
  #left: number;
  #filledMs: number;

  /** @param savedMax largest number that can be saved up */
  constructor(clock: Clock, perSecond: number, savedMax: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
    this.#savedMax = savedMax;
    this.#left = savedMax;
    this.#filledMs = clock.nowMs();
  }

  /** Whether this many may be done now; if so, they count as spent. */
  take(count: number): boolean {
    const nowMs = this.#clock.nowMs();
    const earned = ((nowMs - this.#filledMs) / 1000) * this.#perSecond;
    this.#left = Math.min(this.#savedMax, this.#left + earned);
    this.#filledMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= count;
    return true;
  }
}
