import type { Clock } from '../clock/index.ts';

/** Lets so many run at once; the others wait in the order they came. Whoever may ask bounds how many wait. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(atOnceMax: number) {
    this.#free = atOnceMax;
  }

  /** Runs `work` once a slot is free. Rejects with the signal's reason when it aborts before. */
  async run<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
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

/** Runs pieces of work one after another, in the order of the calls, so that a renewal and a write cannot cross. */
export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Resolves or rejects as `work` does; a failure does not stop what comes after it. When `signal` aborts while the work
   * still waits for its turn, it is dropped and the call rejects at once; work under way watches its own signal.
   */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const waiting = new AbortController(); // rejects only until the turn comes
    const result = this.#last.then(() => {
      signal?.throwIfAborted();
      waiting.abort();
      return work();
    });
    this.#last = result.catch(() => {}); // told to this caller; the next one only waits
    if (signal === undefined) return result;
    const dropped = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: waiting.signal });
    });
    return Promise.race([result, dropped]);
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
