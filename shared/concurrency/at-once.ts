import type { Clock } from '../clock/index.ts';

/**
 * Lets so many run at once, or one after the other; the others wait in the order they came. Whoever may ask bounds how many
 * wait.
 */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(atOnceMax: number) {
    this.#free = atOnceMax;
  }

  /** Runs `work` once a slot is free. Rejects with the signal's reason when it aborts before; work under way watches its own. */
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

/** Visits all `items`, 16 at a time. Rejects with the first failure, once its batch has settled. */
export async function inBatches<T>(items: readonly T[], visit: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += PARALLEL) {
    const results = await Promise.allSettled(items.slice(at, at + PARALLEL).map(visit));
    const failure = results.find((result) => result.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
  }
}

/**
 * How often something may be done a second, on average. What is asked for while something is left is granted whole, and paid
 * back by waiting.
 */
export class RateBudget {
  readonly #clock: Clock;
  readonly #perSecond: number;
  readonly #savedMax: number;
  #left: number;
  #filledMs: number;

  /** @param savedMax the most that is saved up */
  constructor(clock: Clock, perSecond: number, savedMax: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
    this.#savedMax = savedMax;
    this.#left = savedMax;
    this.#filledMs = clock.nowMs();
  }

  /** Whether so many may be done now; they are spent then. */
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
