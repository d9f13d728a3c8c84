import type { Clock } from '../../clock/index.ts';

/**
 * How many calls may be made a second, on average, for requests that anybody can send. What is asked for while something is
 * left is granted whole, and paid back by waiting: a fleet of any size can be asked now and then.
 */
export class CallBudget {
  readonly #clock: Clock;
  readonly #perSecond: number;
  #left: number;
  #filledMs: number;

  /** @param perSecond also the most that is saved up */
  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
    this.#left = perSecond;
    this.#filledMs = clock.nowMs();
  }

  /** Whether so many calls may be made now; they are spent then. */
  take(calls: number): boolean {
    const nowMs = this.#clock.nowMs();
    const earned = ((nowMs - this.#filledMs) / 1000) * this.#perSecond;
    this.#left = Math.min(this.#perSecond, this.#left + earned);
    this.#filledMs = nowMs;
    if (this.#left <= 0) return false;
    this.#left -= calls;
    return true;
  }
}
