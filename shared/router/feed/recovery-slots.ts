/** How many recoveries run at once; the others wait in the order they came. Bounded by the ranks that are followed. */
export class RecoverySlots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  /** @param atOnceMax router.md, section 4.6. @default 16 */
  constructor(atOnceMax = 16) {
    this.#free = atOnceMax;
  }

  /** Runs `work` once a slot is free. Rejects with the signal's reason when it aborts before. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    await this.#take(signal);
    try {
      return await work();
    } finally {
      this.#giveBack();
    }
  }

  #take(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#free > 0) {
      this.#free--;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(onTurn);
        reject(signal.reason);
      };
      const onTurn = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      signal.addEventListener('abort', onAbort, { once: true });
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
